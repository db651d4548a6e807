"""The Bedrock and SageMaker sources through the real SDK, against their wire format on real
sockets.
"""
