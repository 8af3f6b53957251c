package etcdv3

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// validate names what etcd's client would take and then ignore, or fail on with
// every request.
func validate(cfg DialConfig) error {
	if len(cfg.Endpoints) == 0 {
		return errors.New("no etcd endpoint is given: want at least one, like \"http://127.0.0.1:2379\"")
	}
	first := ""
	for i, endpoint := range cfg.Endpoints {
		scheme, err := parseEndpoint(endpoint)
		if err != nil {
			return err
		}
		if i == 0 {
			first = scheme
		}
		// The first endpoint decides for all whether TLS is used.
		if scheme != first {
			return fmt.Errorf("etcd endpoints %q and %q differ in their scheme: use one for all", cfg.Endpoints[0], endpoint)
		}
		if scheme == "http" && cfg.TLS != nil {
			return fmt.Errorf("etcd endpoint %q is plain text, but TLS is configured: use https, or give no TLS", endpoint)
		}
	}
	if (cfg.Username == "") != (cfg.Password == "") {
		return fmt.Errorf("etcd username %q: give a username and a password, or neither", cfg.Username)
	}
	return nil
}

// parseEndpoint returns the endpoint's scheme, or "".
func parseEndpoint(endpoint string) (string, error) {
	if endpoint == "" {
		return "", errors.New("etcd endpoint \"\" is empty: want one like \"http://127.0.0.1:2379\"")
	}
	scheme, rest, ok := strings.Cut(endpoint, "://")
	if !ok {
		return "", checkHostPort(endpoint, endpoint)
	}
	switch scheme {
	case "unix", "unixs":
		if rest == "" {
			return "", fmt.Errorf("etcd endpoint %q has no path", endpoint)
		}
		return scheme, nil
	case "http", "https":
		u, err := url.Parse(endpoint)
		if err != nil {
			return "", fmt.Errorf("etcd endpoint %q: %w", endpoint, err)
		}
		if u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			return "", fmt.Errorf("etcd endpoint %q holds more than a host and a port", u.Redacted())
		}
		return scheme, checkHostPort(endpoint, u.Host)
	default:
		return "", fmt.Errorf("etcd endpoint %q has the scheme %q: want http, https, unix, or none", endpoint, scheme)
	}
}

func checkHostPort(endpoint, hostPort string) error {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("etcd endpoint %q: want a host and a port, like \"127.0.0.1:2379\"", endpoint)
	}
	return nil
}
