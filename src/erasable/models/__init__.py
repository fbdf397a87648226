"""What a model is: configuration, core rows, what is derived from them, its state, and how it is verified.

NumPy and SciPy are enough here. Estimators, files, commands and services are faces of what is in this room.
"""
