"""The contract: events, topics, hardware catalog, model definition, decoding at the door.

Plain data; nothing here talks to a network. Every other floor imports from this one.
"""
