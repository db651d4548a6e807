"""The campaign of planted secrets: does any reach a reader, a store or a log?"""
