package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"strings"
	"syscall"
)

// HintForSystem returns hints for errors of the operating system and the network; "" for others.
func HintForSystem(err error) string {
	if hint := HintForTLS(err); hint != "" {
		return hint
	}
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is the server running? Start one with godwit serve --dev, or name it with GODWIT_URL"
	case errors.As(err, &dns):
		return "check the server's name in GODWIT_URL"
	case errors.Is(err, syscall.EADDRINUSE):
		return "another program listens there; choose another address with --http-addr or --grpc-addr"
	case errors.Is(err, fs.ErrPermission):
		return "run as the user that owns the data folder, or set --data"
	case errors.Is(err, fs.ErrNotExist):
		return "check the file's name; it is looked for in the present folder unless it begins with /"
	case errors.Is(err, context.DeadlineExceeded):
		return "it may have happened all the same; allow more time, or look with godwit status"
	}
	return ""
}

// HintForTLS returns hints for connections that could not be secured.
func HintForTLS(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	text := err.Error()
	says := func(s string) bool { return strings.Contains(text, s) }
	switch {
	case errors.As(err, &unknown) || says("certificate signed by unknown authority"):
		return "if the certificate is of your own authority, name that with --ca FILE or in SSL_CERT_FILE"
	case errors.As(err, &name):
		return "use a name that the certificate is for: " + strings.Join(name.Certificate.DNSNames, ", ")
	case says("x509: certificate is valid for ") || says("x509: certificate is not valid for any names") || says("doesn't contain any IP SANs"):
		return "use a name that the certificate is for; godwit doctor on the server's machine shows it"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired || says("x509: certificate has expired"):
		return "renew the server's certificate; the server reads it again by itself. If it is good, check the clock of this machine"
	case says("transport: authentication handshake failed: EOF") || says(`transport: authentication handshake failed: tls: first record`):
		return "the gRPC port speaks no TLS: name it with --grpc grpc://HOST:PORT. If it does, check the port"
	case errors.As(err, &record) || says("server gave HTTP response to HTTPS client"):
		return "the server speaks no TLS there: name it with http://"
	case says("error reading server preface"):
		return "the port speaks TLS: name it with --grpc grpcs://HOST:PORT, and the authority with --ca FILE if it is your own. If it does not, check the port"
	}
	return ""
}
