"""What is linked into a launcher: features, history snapshot, model, artifact, placement, router.

No Kafka, no Redis, no pandas. Files that train import scikit-learn; the serving path does not.
"""
