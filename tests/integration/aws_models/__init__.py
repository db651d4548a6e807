"""Bedrock and SageMaker as the SDK sees them: their wire format over real sockets, paced by a
script.
"""
