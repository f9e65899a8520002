"""The root of the exceptions that Leap raises."""


class LeapError(Exception):
    """What Leap raises where the cause is outside of it; the text says what is wrong, where, and what to do.

    Each says in its own docstring when it is raised; many are a ``ValueError`` or a ``RuntimeError`` too. The tree of
    all, with the module under ``leap.`` that defines each::

        LeapError                 schemas.errors
            ArtifactError         predictor.artifacts.manifest
                TrialError        predictor.routing.trial
            BackupError           streams.history.backup
            BreakingChange        schemas.tooling.json_schema
            BrokerError           schemas.errors
                DeliveryError     streams.kafka.clients
                TopicError        streams.kafka.topic_admin
            Busy                  retrainer.storage.lease
            CatalogError          schemas.hardware
            CheckFailed           streams.doctor.check
            Hanging               predictor.routing.background
            Interrupted           streams.backfill.sender
            KeyFileError          predictor.artifacts.signing
            MappingError          schemas.backfill.mapping_files
            NightFailed           retrainer.cli.retrain
            NoRenderer            retrainer.report.png
            NotDescribed          predictor.describe.builder
            NotProcessed          streams.backfill.processed
            NothingToLearn        retrainer.night.window
            OtherReplay           retrainer.replay.replay
            PatternError          predictor.features.family_patterns
            PointerMoved          predictor.artifacts.store
            RebuildInProgress     streams.history.store
            RecordError           retrainer.dataset.record
            Rejected              schemas.codec
            ServiceError          streams.embedded
            SettingsError         schemas.errors
            StatusError           schemas.backfill.status
            StorageUrlError       predictor.storage.urls
            StoreDataLost         streams.redis_store.offset_fence
            StuckError            streams.consumer.run
            SwitchError           streams.history.rebuild
            TableError            streams.tables.table
            Unknown               predictor.describe.onnx_flops
            Unusable              streams.backfill.cell_values
            YamlError             schemas.safe_yaml

    What is no error stays outside: ``streams.kafka.message.Rewind``, by which a worker's handler tells its loop to read
    again, must not end in a handler of errors.
    """


class BrokerError(LeapError, RuntimeError):
    """The broker refused what it was asked to do, or did not do it in time."""


class SettingsError(LeapError, ValueError):
    """A variable has an invalid value; the message names it."""
