"""DynamoDB for tests of load and of faults: one process that keeps everything in memory and speaks the real wire protocol.

Where moto's server answers a few hundred requests a second, this answers ten thousand, does transactions as one, and is
strict: what DynamoDB refuses is refused, and so is whatever is not emulated. Not emulated: signatures, regions and accounts
(there is one of each), streams, local indexes, parallel scans, consumed capacity, the legacy parameters, PartiQL, changes of
a table, and the deletion of expired items, which takes DynamoDB days too. Reads of a table are always consistent; those of an
index lag on command.

    python -m tests.dynamodb_emulator --port 8000

    with dynamodb_emulator(log) as dynamodb:              # tests.dynamodb_emulator.process
        tables = dynamodb.create_tables("load")
        environment = dynamodb.environment                # for the process that should call it
        dynamodb.set_faults(throttled_share=0.3, delay_ms=20)
        dynamodb.counts()["BatchWriteItem"]
"""
