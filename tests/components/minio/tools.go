//go:build tools

// Package tools names the program that the tests run against, so that go.mod pins it.
package tools

import _ "github.com/minio/minio"
