package loadgen

import (
	"bytes"
	"errors"
	"strconv"
)

var (
	errResponse = errors.New("the server sent an HTTP response that cannot be read")
	headEnd     = []byte("\r\n\r\n")
)

// httpResponse parses one HTTP/1.1 response at the beginning of b; n is its length, or 0 if it is incomplete.
func httpResponse(b []byte) (status int, body []byte, n int, err error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return 0, nil, 0, nil
	}
	head := b[:end+2]
	if len(head) < 12 || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return 0, nil, 0, errResponse
	}
	if status, err = strconv.Atoi(string(head[9:12])); err != nil {
		return 0, nil, 0, errResponse
	}
	rest := b[end+4:]
	if length, ok := headerValue(head, "Content-Length"); ok {
		size, err := strconv.Atoi(string(length))
		if err != nil || size < 0 {
			return 0, nil, 0, errResponse
		}
		if len(rest) < size {
			return 0, nil, 0, nil
		}
		return status, rest[:size], end + 4 + size, nil
	}
	if coding, ok := headerValue(head, "Transfer-Encoding"); !ok || !bytes.EqualFold(coding, []byte("chunked")) {
		return 0, nil, 0, errResponse
	}
	body, used, err := chunks(rest)
	if err != nil || used == 0 {
		return 0, nil, 0, err
	}
	return status, body, end + 4 + used, nil
}

// headerValue finds a header in head, which holds complete lines. Go's server writes names in canonical form.
func headerValue(head []byte, name string) ([]byte, bool) {
	i := bytes.Index(head, []byte("\r\n"+name+": "))
	if i < 0 {
		return nil, false
	}
	v := head[i+len(name)+4:]
	return v[:bytes.IndexByte(v, '\r')], true
}

// chunks joins a chunked body; used is 0 if the body is incomplete. Trailers are not supported.
func chunks(b []byte) (body []byte, used int, err error) {
	for {
		line := bytes.Index(b[used:], []byte("\r\n"))
		if line < 0 {
			return nil, 0, nil
		}
		size, err := strconv.ParseInt(string(b[used:used+line]), 16, 32)
		if err != nil || size < 0 {
			return nil, 0, errResponse
		}
		used += line + 2
		if len(b) < used+int(size)+2 {
			return nil, 0, nil
		}
		body = append(body, b[used:used+int(size)]...)
		used += int(size) + 2
		if size == 0 {
			return body, used, nil
		}
	}
}
