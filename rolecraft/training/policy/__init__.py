"""The policy: token sequences, and the weights that learn from them."""
