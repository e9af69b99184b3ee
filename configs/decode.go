package configs

import (
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-viper/mapstructure/v2"
)

// strict makes the decoder refuse what it would bend: a number without its unit, a
// fraction cut to an integer, a number taken for text.
func strict(c *mapstructure.DecoderConfig) {
	c.TagName = "yaml"
	c.WeaklyTypedInput = false
	c.DecodeHook = mapstructure.DecodeHookFuncType(decodeValue)
}

// decodeValue turns what flags, environment and files hold into what a field wants.
func decodeValue(from, to reflect.Type, data any) (any, error) {
	text, isText := data.(string)
	switch {
	case from == to:
		return data, nil
	case reflect.PointerTo(to).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		if !isText {
			return nil, fmt.Errorf("%v must be text, in quotes if it looks like a number", data)
		}
		value := reflect.New(to)
		err := value.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
		if err != nil && to == reflect.TypeFor[slog.Level]() {
			err = fmt.Errorf("%q is no level; it must be debug, info, warn or error", text)
		}
		return value.Elem().Interface(), err
	case to.Kind() == reflect.Int:
		return wholeNumber(data)
	case to.Kind() == reflect.String && !isText:
		return nil, fmt.Errorf("%v must be text, in quotes if it looks like a number", data)
	case to.Kind() == reflect.Slice && isText:
		return splitList(text), nil
	}
	return data, nil
}

func wholeNumber(data any) (any, error) {
	switch n := data.(type) {
	case int:
		return n, nil
	case float64: // JSON has no other numbers
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return int(n), nil
		}
	case string:
		if i, err := strconv.Atoi(n); err == nil {
			return i, nil
		}
	}
	return nil, fmt.Errorf("%v is no whole number", data)
}

// splitList splits at commas and leaves out what is empty.
func splitList(text string) []string {
	list := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// decodeError says in our words which key could not be read.
func decodeError(err error) error {
	var at *mapstructure.DecodeError
	if errors.As(err, &at) {
		return fmt.Errorf("%s: %w", at.Name(), at.Unwrap())
	}
	return err
}
