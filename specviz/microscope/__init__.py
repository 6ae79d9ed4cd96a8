"""A recorded round under the microscope: the distributions behind its verdicts, and what else could have happened."""
