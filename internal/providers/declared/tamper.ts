import { createHmac } from 'node:crypto'
import type { ProviderCall } from '../provider.ts'
import { snsSignedMembers } from './aws-sns.ts'
import { CallView, compilePlace, type HeaderTable } from './call.ts'
import { coversBody } from './check-scheme.ts'
import { compileHeaders } from './header-table.ts'
import { hasPublicKeys, hasPublishedKeys } from './keys.ts'
import type { Declaration, Scheme, Vector } from './schema.ts'
import { templateParts } from './template.ts'

interface Keyed {
  readonly call: ProviderCall
  readonly secrets: readonly string[]
  readonly fetched?: Vector['fetched'] | undefined
}

export interface Tampered extends Keyed {
  /** Difference from the valid call, such as `a changed signature`. */
  readonly change: string
}

/**
 * Derives calls that must be refused: changed body, or changed members if only these are signed; changed, repeated or missing signature;
 * repeated time or event id; wrong clock, if a time is signed; other secrets. Returns none for an unsigned handshake.
 */
export function tamperedCalls(
  declaration: Declaration,
  {
    isEvent,
    ...valid
  }: Keyed & {
    /** False for a handshake and a confirmation of a subscription, whose event ids are not read. */
    readonly isEvent: boolean
  },
): Tampered[] {
  const scheme = schemeOfCall(declaration, valid.call)
  if (scheme === undefined) return []
  const headers = compileHeaders(declaration)
  const view = new CallView(valid.call, declaration.body)
  const reading = compilePlace(scheme.signature, headers)(view)
  const value = reading.kind === 'value' ? reading.value : ''
  return [
    ...(coversBody(scheme) ? changedBodies(valid) : changedMembers(valid, scheme)),
    ...changedSignatures(valid, scheme, headers, value),
    ...repeatedHeaders(valid, headers, [
      scheme.signature.header,
      scheme.timestamp?.header,
      ...(isEvent ? declaration.event.id.flatMap(({ header = [] }) => header) : []),
    ]),
    ...otherTimes(valid, scheme),
    ...(scheme.algorithm === 'jwt' ? otherTokens(valid, scheme, headers, value) : []),
    {
      ...valid,
      change: 'another secret',
      secrets: valid.secrets.map((secret) => otherSecret(secret, scheme)),
    },
    ...(hasPublishedKeys(scheme) ? otherPublished(valid) : []),
  ].map((each) => ({ fetched: valid.fetched, ...each }))
}

export function schemeOfCall(declaration: Declaration, call: ProviderCall): Scheme | undefined {
  const headers = compileHeaders(declaration)
  const view = new CallView(call, declaration.body)
  return declaration.signature.schemes.find(
    ({ signature, when }) =>
      compilePlace(signature, headers)(view).kind === 'value' &&
      (when === undefined || compilePlace(when, headers)(view).kind === 'value'),
  )
}

function changedBodies({ call, secrets }: Keyed): Tampered[] {
  const { body } = call
  const positions = [...new Set([0, body.length >> 1, body.length - 1])].filter(
    (at) => at >= 0 && at < body.length,
  )
  const flipped = positions.map((at) => {
    const changed = Uint8Array.from(body)
    changed[at] = (changed[at] ?? 0) ^ 1
    return { secrets, change: `byte ${at} of the body changed`, call: { ...call, body: changed } }
  })
  const longer = Buffer.concat([body, Buffer.from('x')])
  return [...flipped, { secrets, change: 'a byte added to the body', call: { ...call, body: longer } }]
}

/** Changes each signed member of a JSON body that is not signed as a whole. */
function changedMembers({ call, secrets }: Keyed, { signs = '', algorithm }: Scheme): Tampered[] {
  const named = templateParts(signs).flatMap((part) => (part.kind === 'json' ? [part.argument] : []))
  const paths = algorithm === 'aws-sns' ? snsSignedMembers : named
  return paths.flatMap((path) => {
    const body: unknown = JSON.parse(Buffer.from(call.body).toString())
    const names = path.split('.')
    const last = names.pop() ?? ''
    const parent = names.reduce<unknown>((value, name) => memberOf(value, name), body)
    const value = memberOf(parent, last)
    if (!isObjectOrArray(parent) || (typeof value !== 'string' && typeof value !== 'number')) return []
    parent[last] = typeof value === 'number' ? value + 1 : `${value}0`
    const changed = { ...call, body: Buffer.from(JSON.stringify(body)) }
    return [{ secrets, change: `another value of ${path}`, call: changed }]
  })
}

function memberOf(value: unknown, name: string): unknown {
  return isObjectOrArray(value) ? value[name] : undefined
}

function isObjectOrArray(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function changedSignatures(
  { call, secrets }: Keyed,
  scheme: Scheme,
  headers: HeaderTable,
  value: string,
): Tampered[] {
  const changedBy = (change: (text: string) => string) =>
    signatureTexts(scheme, value).reduce((text, one) => text.replaceAll(one, change(one)), value)
  const replaced = (by: (text: string) => string) => replaceSignature(call, scheme, headers, value, by)
  return [
    { secrets, change: 'a changed signature', call: replaced(() => changedBy(altered)) },
    { secrets, change: 'a longer signature', call: replaced(() => changedBy((one) => `${one}x`)) },
    { secrets, change: 'no signature', call: replaced(() => '') },
  ]
}

/** Replaces the signature of a call, and removes signatures in further headers. */
function replaceSignature(
  call: ProviderCall,
  { signature: { header, moreHeaders = [], query } }: Scheme,
  headers: HeaderTable,
  value: string,
  by: (text: string) => string,
): ProviderCall {
  if (header === undefined)
    return query === undefined ? withBodyText(call, value, by(value)) : withQuery(call, value, by(value))
  const names = [header, ...moreHeaders].flatMap((key) => headers[key]?.names ?? [])
  return withHeaders(call, names, (text) => (text === value ? by(text) : ''))
}

/** Makes two forged tokens with the same claims: one unsigned, and one signed with a public text as the secret (algorithm confusion). */
function otherTokens(valid: Keyed, scheme: Scheme, headers: HeaderTable, value: string): Tampered[] {
  const { prefix = '' } = scheme.signature
  const [, payload = ''] = value.slice(prefix.length).split('.')
  const headOf = (algorithm: string) => Buffer.from(JSON.stringify({ alg: algorithm })).toString('base64url')
  const publicText = valid.fetched?.[0]?.text ?? JSON.stringify(scheme)
  const signed = `${headOf('HS256')}.${payload}`
  const hmac = createHmac('sha256', publicText).update(signed).digest('base64url')
  const tokens = [
    ['a token without a signature', `${headOf('none')}.${payload}.AA`],
    ['a token signed with a public text', `${signed}.${hmac}`],
  ] as const
  return tokens.map(([change, token]) => ({
    secrets: valid.secrets,
    change,
    call: replaceSignature(valid.call, scheme, headers, value, () => `${prefix}${token}`),
  }))
}

/** Replaces the published keys by none and by others. */
function otherPublished(valid: Keyed): Tampered[] {
  const changed = valid.fetched?.map(({ url, text }) => ({ url, text: otherKeys(text) }))
  return [
    { ...valid, change: 'no published keys', fetched: undefined },
    { ...valid, change: 'other published keys', fetched: changed },
  ]
}

/** Changes the modulus or the point of each JSON Web Key, or a character of a certificate. */
function otherKeys(text: string): string {
  if (text.startsWith('-----BEGIN')) return altered(text)
  return text.replace(
    /("(?:x|n)"\s*:\s*")([^"]+)/g,
    (_, start: string, value: string) => `${start}${altered(value)}`,
  )
}

function signatureTexts(
  { algorithm, signature: { prefix = '', pairs, list } }: Scheme,
  value: string,
): string[] {
  if (pairs) {
    const start = `${pairs.name}${pairs.assign}`
    const own = value
      .split(pairs.separator)
      .map((pair) => pair.trim())
      .filter((pair) => pair.startsWith(start))
    return own.map((pair) => pair.slice(start.length))
  }
  if (list)
    return value
      .split(list.separator)
      .slice(1)
      .map((item) => item.trim())
  if (algorithm === 'jwt') return [value.slice(value.lastIndexOf('.') + 1)]
  if (algorithm === 'basic') return [value.replace(/^basic +/i, '')]
  return [value.slice(prefix.length)]
}

/** Replaces the middle character by one that is valid in every encoding. */
function altered(text: string): string {
  const at = text.length >> 1
  return `${text.slice(0, at)}${text[at] === '0' ? '1' : '0'}${text.slice(at + 1)}`
}

function repeatedHeaders(
  { call, secrets }: Keyed,
  headers: HeaderTable,
  keys: readonly (string | undefined)[],
): Tampered[] {
  const present = [...new Set(keys)]
    .flatMap((key) => headers[key ?? '']?.names ?? [])
    .filter((name) => call.headers.get(name))
  return present.map((name) => ({
    secrets,
    change: `the header ${name} twice`,
    call: withHeaders(call, [name], (text) => `${text}, ${text}`),
  }))
}

function otherTimes(
  { call, secrets }: Keyed,
  { timestamp, toleranceSeconds, algorithm }: Scheme,
): Tampered[] {
  const isTimed = algorithm === 'aws-sns' || (algorithm === 'jwt' && toleranceSeconds !== undefined)
  if (timestamp === undefined && !isTimed) return []
  const ageMs = toleranceSeconds === undefined ? call.signatureAgeMsMax : toleranceSeconds * 1000
  // The signed time may differ from the clock by the maximum age in either direction, so the clock moves by more than twice that age.
  return [-1, 1].map((sign) => ({
    secrets,
    change: sign < 0 ? 'a clock that is too early' : 'a clock that is too late',
    call: { ...call, nowMs: call.nowMs + sign * (2 * ageMs + 1000) },
  }))
}

function withHeaders(
  call: ProviderCall,
  names: readonly string[],
  by: (text: string) => string,
): ProviderCall {
  const lower = names.map((name) => name.toLowerCase())
  const get = (name: string): string | null => {
    const text = call.headers.get(name)
    return text !== null && lower.includes(name.toLowerCase()) ? by(text) : text
  }
  return { ...call, headers: { get } }
}

function withQuery(call: ProviderCall, value: string, other: string): ProviderCall {
  const { method, url } = call.request ?? { method: 'POST', url: '' }
  const changed = url.replace(encodeURIComponent(value), encodeURIComponent(other)).replace(value, other)
  return { ...call, request: { method, url: changed } }
}

function withBodyText(call: ProviderCall, value: string, other: string): ProviderCall {
  return { ...call, body: Buffer.from(Buffer.from(call.body).toString().replace(value, other)) }
}

/** Changes a secret. In a JSON Web Key, changes only the members that contain the key. */
function otherSecret(secret: string, scheme: Scheme): string {
  const isJwk = hasPublicKeys(scheme) && scheme.key?.format === 'jwk'
  return isJwk ? otherKeys(secret) : altered(secret)
}
