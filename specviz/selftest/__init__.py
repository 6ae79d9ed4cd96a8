"""What the project claims, checked on the device at hand; the report is for people who cannot get at that device."""
