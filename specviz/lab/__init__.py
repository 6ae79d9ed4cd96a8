"""The losslessness laboratory: positions and whole rounds drawn again, many times, and held against p."""
