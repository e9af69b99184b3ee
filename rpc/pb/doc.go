// Package pb holds the protobuf messages and the dRPC service of Muster's wire.
// Everything but this file and the .proto files is generated; nothing here has logic.
package pb

//go:generate protoc -I . --plugin=protoc-gen-go=./protoc-gen-go.sh --plugin=protoc-gen-go-drpc=./protoc-gen-go-drpc.sh --go_out=. --go_opt=paths=source_relative --go-drpc_out=. --go-drpc_opt=paths=source_relative,json=false blocks.proto locations.proto namespace.proto
