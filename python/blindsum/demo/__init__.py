"""The demonstration: handwritten digits, parties in their own processes, one of them killed."""
