"""The version of tithe, in one place that packaging and records can read without importing anything."""

VERSION = "0.1.0"
