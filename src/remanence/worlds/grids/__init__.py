"""Grid worlds: corners, the continuous square, the slippery grid."""
