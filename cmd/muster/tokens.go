package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/configs"
)

// upTokens says whether blocks are read and written with tokens alone where a location service runs
// within muster up. It refuses to let other machines connect unless a key file is named, so that who
// belongs to the cluster was decided by somebody.
func (a *app) upTokens(ctx context.Context) (bool, error) {
	wide, err := isWide(ctx, "server.listen", a.config.Server.Listen)
	if err != nil {
		return false, err
	}
	if wide && a.config.Cluster.KeyFile == "" {
		return false, fmt.Errorf("%w: server.listen: other machines can connect to %s, so set cluster.key_file, to a file with 32 random bytes "+
			"(head -c 32 /dev/urandom > FILE && chmod 600 FILE) that the servers of this cluster share; or listen on 127.0.0.1:PORT", muster.ErrInvalid, a.config.Server.Listen)
	}
	return tokens(a.config.Locations.Tokens, wide), nil
}

// locationsTokens is upTokens of a location service in a process of its own, which has a key file always.
func (a *app) locationsTokens(ctx context.Context) (bool, error) {
	wide, err := isWide(ctx, "locations.listen", a.config.Locations.Listen)
	return tokens(a.config.Locations.Tokens, wide), err
}

// tokens says whether there are tokens, by what is configured and whether other machines can connect.
func tokens(t configs.Tokens, wide bool) bool {
	return t == configs.TokensOn || t == configs.TokensAuto && wide
}

// sayTokens logs whether there are tokens.
func sayTokens(logger *slog.Logger, addr net.Addr, on bool) {
	if on || isLoopback(addr) {
		logger.Info("block tokens", "on", on)
	} else {
		logger.Warn("block tokens are off: whoever can connect to a datanode reads and writes all blocks; set locations.tokens to auto")
	}
}

// isWide says whether other machines can connect to what listens on the address of a key: it is not of loopback
// alone.
func isWide(ctx context.Context, key, address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return true, nil // all addresses, or none: listening says what is wrong
	}
	if ip := net.ParseIP(host); ip != nil {
		return !ip.IsLoopback(), nil
	}
	found, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return false, fmt.Errorf("%w: %s: %w", muster.ErrUnavailable, key, err)
	}
	for _, a := range found {
		if !a.IP.IsLoopback() {
			return true, nil
		}
	}
	return false, nil
}
