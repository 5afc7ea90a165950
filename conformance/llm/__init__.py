"""The models of a run, for backends that call one themselves: an OpenAI-compatible server on this machine.

Its language model is the kit's summarizer, which here has to find out from a prompt what it was given; its
embedding model is the kit's embedder.
"""
