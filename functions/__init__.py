"""The Lambda functions, a folder each: a thin handler, pure logic, settings."""
