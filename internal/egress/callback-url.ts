import { isIP } from 'node:net'
import { type AddressBlock, checkAddress, isNeverPublic } from './address-rules.ts'

/** A callback's URL, taken apart as a call needs it. */
export interface CallbackUrl {
  readonly scheme: 'http' | 'https'
  /** A name in ASCII without a final dot, or an address without brackets; numeric forms of IPv4 are decimal here. */
  readonly host: string
  /** The host is an address: nothing is to be resolved. */
  readonly isAddress: boolean
  readonly port: number
  /** Path and query, percent-encoded, as the request line has them. */
  readonly path: string
  /** As the header `Host` has it. */
  readonly authority: string
}

/** Why a URL is not called. */
export type CallbackRefusal =
  | 'malformed'
  | 'too_long'
  | 'scheme'
  | 'credentials'
  | 'fragment'
  | 'port'
  | 'port_not_listed'
  | 'http_not_listed'
  | 'address'

/** What a URL turned out to be; `message` tells its owner what to do. */
export type CheckedCallbackUrl = { readonly kind: 'callback'; readonly url: CallbackUrl } | RefusedCallback

/** A URL that is not called. */
export interface RefusedCallback {
  readonly kind: 'refused'
  readonly cause: CallbackRefusal
  readonly message: string
}

const urlLengthMax = 2048

/**
 * Ports of other protocols, which an HTTP request must not be aimed at: the Fetch standard's list
 * (https://fetch.spec.whatwg.org/#port-blocking, read 2026-11). Every other port is a callback's own choice.
 */
export const portsBlocked: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
  109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515,
  526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049,
  3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10_080,
])

/** Ports that callbacks in listed networks that are not public may have without being set: those of HTTP servers. */
export const callbackPortsAlways: readonly number[] = [80, 443, 8080, 8443]

/** The platform's bounds on callbacks. */
export interface CallbackBounds {
  /** `LATCHKEY_CALLBACK_CIDRS_MAX`: networks beyond public ones that a tenant may list. */
  readonly cidrsMax: readonly string[]
  /** `LATCHKEY_CALLBACK_PORTS`: ports there beside 80, 443, 8080 and 8443; `any`: all. Public addresses have no such bound. */
  readonly ports: readonly number[] | 'any'
}

/** What a callback's addresses are judged by. */
export interface CallbackRules extends CallbackBounds {
  /** The tenant's own list of non-public networks. */
  readonly allowedCIDRs: readonly string[]
}

/** Checks a URL's form and takes it apart; looks at no address. Pure. */
export function checkCallbackUrl(text: string): CheckedCallbackUrl {
  if (text.length > urlLengthMax)
    return refused('too_long', `must be at most ${urlLengthMax} characters long`)
  // A URL parser drops or turns these, so that what is called would not be what its owner reads.
  if (/[\\\u0000-\u0020\u007f]/.test(text)) {
    return refused('malformed', 'must not hold spaces, control characters or backslashes')
  }
  const url = URL.parse(text)
  if (url === null) return refused('malformed', 'must be a URL such as https://hooks.example/latchkey')
  const scheme = url.protocol === 'https:' ? 'https' : 'http'
  if (url.protocol !== `${scheme}:`) return refused('scheme', 'must be an https URL')
  // The parser would also take https:name and https:///name for https://name.
  if (!/^https?:\/\/[^/]/i.test(text)) return refused('malformed', 'must name its host after https://')
  if (url.username !== '' || url.password !== '') {
    return refused('credentials', 'must not carry credentials: check the signature of deliveries instead')
  }
  if (text.includes('#')) return refused('fragment', 'must not have a fragment: it would never be sent')
  const port = url.port === '' ? (scheme === 'https' ? 443 : 80) : Number(url.port)
  if (portsBlocked.has(port)) return refused('port', `must not use port ${port}, which is another protocol's`)
  return takenApart(url, scheme, port)
}

/**
 * Whether a URL may be a callback, as far as can be said without resolving its name; a delivery judges what the name
 * resolves to by the same rules. Pure.
 */
export function judgeCallback(text: string, rules: CallbackRules): CheckedCallbackUrl {
  const checked = checkCallbackUrl(text)
  if (checked.kind === 'refused') return checked
  const { url } = checked
  const refusal = url.isAddress ? judgeAddresses(url, [url.host], rules) : judgeName(url, rules)
  return refusal ?? checked
}

/**
 * Judges all addresses that a callback has. One that may not be called refuses them all: a name that answers with a
 * public address and an internal one beside it is an attack or a mistake, and trying the good one only would let it flap
 * until somebody else's resolver, or a later change of this rule, takes the other. An address that is allowed only by a list
 * may be reached at ports of HTTP servers and those that the platform sets, so that no tenant can talk to databases and kubelets there.
 */
export function judgeAddresses(
  { scheme, port }: Pick<CallbackUrl, 'scheme' | 'port'>,
  addresses: readonly string[],
  rules: CallbackRules,
): RefusedCallback | undefined {
  for (const address of addresses) {
    const verdict = checkAddress(address, rules)
    if (verdict.kind === 'refused') return refused('address', messages[verdict.block])
    if (scheme === 'http' && !verdict.listed) return httpNotListed
    if (!verdict.isPublic && !isListedPort(port, rules)) return portNotListed(port)
  }
  return undefined
}

function isListedPort(port: number, { ports }: CallbackBounds): boolean {
  return ports === 'any' || callbackPortsAlways.includes(port) || ports.includes(port)
}

function portNotListed(port: number): RefusedCallback {
  const usual = callbackPortsAlways.join(', ')
  return refused(
    'port_not_listed',
    `must not use port ${port} of an address that is not public: use ${usual}, or have the platform add it to LATCHKEY_CALLBACK_PORTS`,
  )
}

/** Checks a host name before resolution. Plain HTTP requires listed networks. */
function judgeName({ scheme, port }: CallbackUrl, rules: CallbackRules): RefusedCallback | undefined {
  if (scheme === 'https') return undefined
  const { allowedCIDRs, cidrsMax } = rules
  if (allowedCIDRs.length === 0 || cidrsMax.length === 0) return httpNotListed
  const isPrivate = allowedCIDRs.every(isNeverPublic) || cidrsMax.every(isNeverPublic)
  return isPrivate && !isListedPort(port, rules) ? portNotListed(port) : undefined
}

function takenApart(url: URL, scheme: 'http' | 'https', port: number): CheckedCallbackUrl {
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  if (host === '' || host.length > 253) return refused('malformed', 'must name a host')
  return {
    kind: 'callback',
    url: {
      scheme,
      host,
      isAddress: isIP(host) !== 0,
      port,
      path: `${url.pathname}${url.search}`,
      authority: url.host,
    },
  }
}

function refused(cause: CallbackRefusal, message: string): RefusedCallback {
  return { kind: 'refused', cause, message }
}

const httpNotListed = refused(
  'http_not_listed',
  'must be https, unless allowedCIDRs, within what the platform permits, lists every address that it has',
)

const unlisted = (what: string) =>
  `leads to ${what}: list its network in allowedCIDRs, within what the platform permits, or use a public address`
const neverCalled = (what: string) => `leads to ${what}, which is never called: use another address`

/** Told to tenants: says what kind of address it is and never which, so that no internal name can be looked up by us. */
const messages: Readonly<Record<AddressBlock, string>> = {
  public: 'leads to a public address',
  unspecified: neverCalled('no particular address'),
  loopback: unlisted('a loopback address'),
  private: unlisted('a private address'),
  shared: unlisted("an address of a carrier's shared space"),
  link_local: neverCalled('a link-local address'),
  metadata: neverCalled("an address of a cloud's metadata service"),
  multicast: neverCalled('a multicast address'),
  documentation: unlisted('an address kept for documentation'),
  benchmarking: unlisted('an address kept for benchmarks'),
  site_local: unlisted('a site-local address'),
  embedded_ipv4: unlisted('an IPv6 address that holds an IPv4 address'),
  reserved: unlisted('a reserved address'),
  not_an_address: neverCalled('something that is no address'),
}
