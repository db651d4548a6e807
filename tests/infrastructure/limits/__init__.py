"""AWS's limits that CloudFormation only finds while it deploys, as rows of a table."""
