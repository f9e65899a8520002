"""The contract: events, topics, hardware catalog, model definitions, and validation of messages.

Plain data without network access. Every other layer imports from this one.
"""
