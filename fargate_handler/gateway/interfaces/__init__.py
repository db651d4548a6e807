"""The APIs of chats' interfaces, AI SDK's and AG-UI's, whose clients have the conversation."""
