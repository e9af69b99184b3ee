//go:build !linux

package bench

func systemAlarm() alarm { return sleeper{} }
