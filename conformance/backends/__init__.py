"""The reference backends, each as an outside author would write it."""
