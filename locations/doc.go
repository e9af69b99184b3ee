// Package locations is the shared location cache of a namespace server.
package locations
