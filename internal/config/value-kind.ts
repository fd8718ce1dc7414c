import { isIP } from 'node:net'

/** What a kind made of a value's text; `expected` never quotes the text, which may be a secret. */
export type ParsedValue<T> =
  | { readonly kind: 'ok'; readonly value: T }
  | { readonly kind: 'invalid'; readonly expected: string }

/** One type of value: how it is named in the documentation, read, and printed. */
export interface ValueKind<T> {
  /** Type and unit, as the configuration table shows them. */
  readonly name: string
  parse(text: string): ParsedValue<T>
  /** Text for a log, without the password that the value may hold. */
  print?(value: T): string
}

/** A whole number from `min` to `max`, both included. */
export function integer(name: string, min: number, max: number): ValueKind<number> {
  return {
    name,
    parse(text) {
      const value = Number(text)
      if (/^\d{1,15}$/.test(text) && value >= min && value <= max) return ok(value)
      return invalid(`a whole number from ${min} to ${max}`)
    },
  }
}

/** A TCP port; 0 takes a free one. */
export const port: ValueKind<number> = integer('port', 0, 65_535)

/** An IPv4 or IPv6 address in its canonical form, without a zone: names could resolve to another interface at each start. */
export const ipAddress: ValueKind<string> = {
  name: 'IP address',
  parse(text) {
    const version = isIP(text)
    if (version === 4) return ok(text)
    const host = version === 6 ? URL.parse(`http://[${text}]`)?.hostname : undefined
    return host === undefined
      ? invalid('an IPv4 or IPv6 address, such as 127.0.0.1, 0.0.0.0 or ::1, and no host name')
      : ok(host.slice(1, -1))
  },
}

/** A number from 0 to 1. */
export const ratio: ValueKind<number> = {
  name: 'ratio',
  parse(text) {
    const value = Number(text)
    return /^\d{1,3}(\.\d{1,9})?$/.test(text) && value <= 1 ? ok(value) : invalid('a number from 0 to 1')
  },
}

/** `true` or `false`, and nothing that merely looks like one. */
export const flag: ValueKind<boolean> = {
  name: 'true or false',
  parse(text) {
    return text === 'true' || text === 'false' ? ok(text === 'true') : invalid('true or false')
  },
}

/** One of a closed set of words. */
export function oneOf<const T extends string>(words: readonly T[]): ValueKind<T> {
  return {
    name: words.join(', '),
    parse(text) {
      const word = words.find((each) => each === text)
      return word === undefined ? invalid(`one of ${words.join(', ')}`) : ok(word)
    },
  }
}

/** Any text of one line. */
export function line(name: string): ValueKind<string> {
  return {
    name,
    parse: (value) => (/[\0-\x1f\x7f]/.test(value) ? invalid('text without control characters') : ok(value)),
  }
}

/** Networks as `address/prefix` or a bare address, separated by commas. */
export const cidrs: ValueKind<readonly string[]> = {
  name: 'CIDRs, comma separated',
  parse(value) {
    const entries = value.split(',').map((entry) => entry.trim())
    if (entries.length > 256) return invalid('at most 256 networks')
    const bad = entries.findIndex((entry) => !isNetwork(entry))
    return bad < 0
      ? ok(entries)
      : invalid(`addresses or address/prefix, separated by commas; entry ${bad + 1} is none`)
  },
}

/** TCP ports, separated by commas, or `any`. */
export const ports: ValueKind<readonly number[] | 'any'> = {
  name: 'ports, comma separated, or any',
  parse(value) {
    if (value.trim() === 'any') return ok('any')
    const entries = value.split(',').map((entry) => entry.trim())
    if (entries.length > 64) return invalid('at most 64 ports')
    const bad = entries.findIndex((entry) => !/^[1-9]\d{0,4}$/.test(entry) || Number(entry) > 65_535)
    return bad < 0
      ? ok([...new Set(entries.map(Number))])
      : invalid(`ports from 1 to 65535, separated by commas, or any; entry ${bad + 1} is none`)
  },
}

/** Names of namespaces, separated by commas, or `*` for all of them, which gives undefined. */
export const namespaces: ValueKind<readonly string[] | undefined> = {
  name: 'namespaces, comma separated',
  parse(value) {
    if (value.trim() === '*') return ok(undefined)
    const entries = value.split(',').map((entry) => entry.trim())
    if (entries.length > 1_000) return invalid('at most 1000 namespaces')
    const bad = entries.findIndex((entry) => !/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(entry))
    return bad < 0
      ? ok([...new Set(entries)])
      : invalid(`names of namespaces, or * for all; entry ${bad + 1} is none`)
  },
}

function isNetwork(entry: string): boolean {
  const [address = '', prefix, ...rest] = entry.split('/')
  const version = isIP(address)
  if (version === 0 || rest.length > 0) return false
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128))
}

/**
 * A key ring, `id:base64key[,…]`, kept as text: it is opened where it is used, so that keys are in one object of the
 * process only.
 */
export const keyRing: ValueKind<string> = {
  name: 'id:base64 of 32 bytes, comma separated',
  parse(value) {
    const entries = value.split(',').map((entry) => entry.trim())
    const bad = entries.findIndex(
      (entry) => !/^[A-Za-z0-9][A-Za-z0-9._-]{0,31}:[A-Za-z0-9+/]{43}=$/.test(entry),
    )
    return bad < 0
      ? ok(value)
      : invalid(
          `id:base64key entries with keys of 32 bytes; entry ${bad + 1} is none (openssl rand -base64 32)`,
        )
  },
}

/** Header lines as OpenTelemetry writes them: `name=value,name2=value2`, values percent-encoded. */
export const headerPairs: ValueKind<Readonly<Record<string, string>>> = {
  name: 'name=value, comma separated',
  parse(value) {
    const headers: Record<string, string> = {}
    for (const [index, entry] of value.split(',').entries()) {
      const match = /^\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(.*?)\s*$/.exec(entry)
      const decoded = decode(match?.[2])
      if (!match?.[1] || decoded === undefined) return invalid(`name=value pairs; entry ${index + 1} is none`)
      headers[match[1].toLowerCase()] = decoded
    }
    return ok(Object.freeze(headers))
  },
}

function decode(value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  try {
    return decodeURIComponent(value)
  } catch {
    return undefined
  }
}

/** A value in order. */
export function ok<T>(value: T): ParsedValue<T> {
  return { kind: 'ok', value }
}

/** A value that is not; `expected` completes "expected …". */
export function invalid(expected: string): ParsedValue<never> {
  return { kind: 'invalid', expected }
}
