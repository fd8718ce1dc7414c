import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'

/** `expected` describes valid values and never contains the parsed value, which may be a secret. */
export type ParsedValue<T> =
  | { readonly kind: 'ok'; readonly value: T }
  | { readonly kind: 'invalid'; readonly expected: string }

export interface ValueKind<T> {
  /** Type and unit for the documentation table. */
  readonly name: string
  parse(text: string): ParsedValue<T>
  /** Returns the value as text without any password. */
  print?(value: T): string
}

/** `min` and `max` are included. */
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

/** 0 means any free port. */
export const port: ValueKind<number> = integer('port', 0, 65_535)

/** IP address in canonical form, without a zone. Refuses host names: a name could resolve to another interface at each start. */
export const ipAddress: ValueKind<string> = {
  name: 'IP address',
  parse(text) {
    const version = isIP(text)
    if (version === 4) return ok(text)
    const host = version === 6 ? URL.parse(`http://[${text}]`)?.hostname : undefined
    return host === undefined
      ? invalid('an IPv4 or IPv6 address such as 127.0.0.1, 0.0.0.0 or ::1, not a host name')
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

/** `true` or `false`; other spellings are rejected. */
export const flag: ValueKind<boolean> = {
  name: 'true or false',
  parse(text) {
    return text === 'true' || text === 'false' ? ok(text === 'true') : invalid('true or false')
  },
}

export function oneOf<const T extends string>(words: readonly T[]): ValueKind<T> {
  return {
    name: words.join(', '),
    parse(text) {
      const word = words.find((each) => each === text)
      return word === undefined ? invalid(`one of ${words.join(', ')}`) : ok(word)
    },
  }
}

export function line(name: string): ValueKind<string> {
  return {
    name,
    parse: (value) => (/[\0-\x1f\x7f]/.test(value) ? invalid('text without control characters') : ok(value)),
  }
}

export function credential(name: string): ValueKind<string> {
  return {
    name,
    parse: (value) =>
      isCredential(value) ? ok(value) : invalid('printable ASCII characters without spaces, at most 16384'),
  }
}

/** Returns whether a text can be a key, a token or a secret: printable ASCII that fits into an HTTP header. */
export function isCredential(text: string): boolean {
  return /^[!-~]{1,16384}$/.test(text)
}

/** Splits a list at its commas. The problem of an invalid list names the position of the first invalid entry. */
function entriesOf(
  value: string,
  expected: string,
  isEntry: (entry: string) => boolean,
  countMax = Number.POSITIVE_INFINITY,
): ParsedValue<readonly string[]> {
  const entries = value.split(',').map((entry) => entry.trim())
  if (entries.length > countMax) return invalid(`at most ${countMax} entries`)
  const bad = entries.findIndex((entry) => !isEntry(entry))
  return bad < 0 ? ok([...new Set(entries)]) : invalid(`${expected}; entry ${bad + 1} is invalid`)
}

/** Networks, separated by commas, each as `address/prefix` or as an address without prefix. */
export const cidrs: ValueKind<readonly string[]> = {
  name: 'CIDRs, comma separated',
  parse: (value) => entriesOf(value, 'addresses or address/prefix, separated by commas', isNetwork, 256),
}

/** TCP ports separated by commas, or `any`. */
export const ports: ValueKind<readonly number[] | 'any'> = {
  name: 'ports, comma separated, or any',
  parse(value) {
    if (value.trim() === 'any') return ok('any')
    const isPort = (entry: string) => /^[1-9]\d{0,4}$/.test(entry) && Number(entry) <= 65_535
    const read = entriesOf(value, 'ports from 1 to 65535, separated by commas, or any', isPort, 64)
    return read.kind === 'ok' ? ok(read.value.map(Number)) : read
  },
}

/** Namespaces separated by commas, or `*` for all namespaces, which parses to undefined. */
export const namespaces: ValueKind<readonly string[] | undefined> = {
  name: 'namespaces, comma separated',
  parse(value) {
    if (value.trim() === '*') return ok(undefined)
    const isName = (entry: string) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(entry)
    return entriesOf(value, 'names of namespaces, or * for all', isName, 1_000)
  },
}

/** Some of the given words, separated by commas. */
export function someOf<Word extends string>(words: readonly Word[]): ValueKind<readonly Word[]> {
  const isWord = (entry: string): entry is Word => (words as readonly string[]).includes(entry)
  return {
    name: `some of ${words.join(', ')}`,
    parse(value) {
      const read = entriesOf(value, `some of ${words.join(', ')}, separated by commas`, isWord)
      return read.kind === 'ok' ? ok(read.value.filter(isWord)) : read
    },
  }
}

function isNetwork(entry: string): boolean {
  const [address = '', prefix, ...rest] = entry.split('/')
  const version = isIP(address)
  if (version === 0 || rest.length > 0) return false
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128))
}

/**
 * Key ring of the form `id:base64key[,…]`. It stays text and is decoded only where it is used, so that the keys exist in only one object of
 * the process.
 */
export const keyRing: ValueKind<string> = {
  name: 'id:base64 of 32 bytes, comma separated',
  parse(value) {
    const isKey = (entry: string) => /^[A-Za-z0-9][A-Za-z0-9._-]{0,31}:[A-Za-z0-9+/]{43}=$/.test(entry)
    const expected = 'id:base64key entries with keys of 32 bytes (openssl rand -base64 32)'
    const read = entriesOf(value, expected, isKey)
    return read.kind === 'ok' ? ok(value) : read
  },
}

/** Headers in the format of OpenTelemetry: `name=value,name2=value2` with percent-encoded values. */
export const headerPairs: ValueKind<Readonly<Record<string, string>>> = {
  name: 'name=value, comma separated',
  parse(value) {
    const headers: Record<string, string> = {}
    for (const [index, entry] of value.split(',').entries()) {
      const match = /^\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(.*?)\s*$/.exec(entry)
      const decoded = decode(match?.[2])
      if (!match?.[1] || decoded === undefined)
        return invalid(`name=value pairs; entry ${index + 1} is invalid`)
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

export function ok<T>(value: T): ParsedValue<T> {
  return { kind: 'ok', value }
}

/** `expected` completes the text "expected …". */
export function invalid(expected: string): ParsedValue<never> {
  return { kind: 'invalid', expected }
}

// URLs with a second `@` are rejected: the password then contains an unencoded `@`, and `withoutPassword` would print the part after it.

export const httpUrl: ValueKind<string> = {
  name: 'http or https URL',
  parse(value) {
    const url = /^https?:\/\/(?:[^@/?#\s]*@)?[^@\s]*$/.test(value) ? URL.parse(value) : null
    return url ? ok(value) : invalid('an http:// or https:// URL, user and password percent-encoded')
  },
  print: withoutPassword,
}

/** Base URL of pages, without user, query and fragment. The value has no trailing slash. */
export const baseUrl: ValueKind<string> = {
  name: 'http or https URL without query',
  parse(value) {
    const parsed = httpUrl.parse(value)
    const url = parsed.kind === 'ok' && !/[?#@]/.test(value) ? new URL(value) : null
    if (!url) return invalid('an http:// or https:// URL without user, query and fragment')
    return ok(url.origin + url.pathname.replace(/\/+$/, ''))
  },
}

const postgresPattern = /^postgres(?:ql)?:\/\/(?:[^@/?#\s]*@)?([^/?#\s]*)(?:\/[^@?#\s]*)?(?:\?([^@#\s]*))?$/

/** A `postgres://` URL. `?host=/dir` connects through a Unix socket. */
export const postgresUrl: ValueKind<string> = {
  name: 'postgres URL',
  parse(value) {
    const match = postgresPattern.exec(value)
    const hasHost = match && (match[1] !== '' || new URLSearchParams(match[2] ?? '').has('host'))
    return hasHost ? ok(value) : invalid('postgres://user:password@host:5432/database, percent-encoded')
  },
  print: withoutPassword,
}

const redisPattern =
  /^rediss?(?:\+(sentinel|cluster))?:\/\/(?:[^@/?\s]*@)?([^@/?\s]+)(?:\/([^@/?\s]*))?(?:\?[^@\s]*)?$/
const nodePattern = /^(?:\[[0-9a-fA-F:.]+\]|[^:[\]\s]+)(?::\d{1,5})?$/

/**
 * Redis URL: `redis://host` for one server, `redis+sentinel://h1,h2/<master-name>` or `redis+cluster://h1,h2`; `rediss` enables TLS. Checks
 * only the syntax; `internal/storage` parses the parts.
 */
export const redisUrl: ValueKind<string> = {
  name: 'redis URL',
  parse(value) {
    const [matched, mode, hosts = '', path = ''] = redisPattern.exec(value) ?? []
    if (matched === undefined)
      return invalid(
        'redis://host:6379, rediss://…, redis+sentinel://host:26379/master-name or redis+cluster://host:6379',
      )
    const nodes = hosts.split(',')
    if (!nodes.every((node) => nodePattern.test(node))) return invalid('hosts of the form host:port')
    if (mode === undefined && nodes.length > 1)
      return invalid('one host, or redis+sentinel:// or redis+cluster:// for several')
    if (mode === 'sentinel' && path === '') return invalid("the master's name as path of redis+sentinel://")
    if (mode === 'cluster' && path !== '' && path !== '0') return invalid('database 0 of a cluster')
    return ok(value)
  },
  print: withoutPassword,
}

/** Redacts the password of a URL, and possible passwords in its query. */
export function withoutPassword(url: string): string {
  return url
    .replace(/^([a-z0-9+.-]+:\/\/)([^@/?#]*)@/i, (_all, scheme: string, credentials: string) => {
      const colon = credentials.indexOf(':')
      // Without a colon, the user part may be a token, as in redis://token@host.
      return colon < 0 ? `${scheme}[redacted]@` : `${scheme}${credentials.slice(0, colon)}:[redacted]@`
    })
    .replace(/([?&][^=&#]*(?:pass|pwd|secret|token|key)[^=&#]*=)[^&#]*/gi, '$1[redacted]')
}

const fileBytesMax = 4 * 1024 * 1024
const certificatePattern = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

/** Path of a readable PEM file with one or more certificates. The file is read at start-up, so that an invalid file stops the start. */
export const certificatesFile: ValueKind<string> = {
  name: 'PEM file',
  parse: (path) =>
    checkedPem(path, (text) => {
      const certificates = text.match(certificatePattern) ?? []
      if (certificates.length === 0) return 'it contains no PEM certificate'
      const bad = certificates.findIndex((each) => !parses(() => new X509Certificate(each)))
      return bad < 0 ? undefined : `its certificate ${bad + 1} cannot be read`
    }),
}

/** Path of a readable PEM file with an unencrypted private key. The file is read at start-up, like `certificatesFile`. */
export const privateKeyFile: ValueKind<string> = {
  name: 'PEM file',
  parse: (path) =>
    checkedPem(path, (text) =>
      parses(() => createPrivateKey(text)) ? undefined : 'it contains no unencrypted PEM private key',
    ),
}

/** Returns whether a private key belongs to a certificate. The caller must have validated both files. */
export function isKeyOf(keyPath: string, certificatePath: string): boolean {
  const certificate = new X509Certificate(readFileSync(certificatePath))
  return certificate.checkPrivateKey(createPrivateKey(readFileSync(keyPath)))
}

/** Checks a PEM file. A problem never contains the content of the file, which may be a key. */
function checkedPem(path: string, faultOf: (text: string) => string | undefined): ParsedValue<string> {
  let fault: string | undefined
  try {
    const isLarge = statSync(path).size > fileBytesMax
    fault = isLarge ? `it is larger than ${fileBytesMax} bytes` : faultOf(readFileSync(path, 'utf8'))
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
    fault = `it cannot be read (${code})`
  }
  return fault === undefined ? ok(path) : invalid(`the path of a readable PEM file: ${fault}`)
}

function parses(parse: () => unknown): boolean {
  try {
    parse()
    return true
  } catch {
    return false
  }
}
