import { isIP } from 'node:net'
import { type AddressBlock, blockNames, blocksNeverCalled, checkAddress, isNeverPublic } from './address.ts'

export interface CallbackUrl {
  readonly scheme: 'http' | 'https'
  /** ASCII name without a final dot, or an address without brackets. IPv4 addresses are always in dotted decimal. */
  readonly host: string
  readonly isAddress: boolean
  readonly port: number
  /** Request target: path and query, percent-encoded. */
  readonly path: string
  /** Value of the `Host` header. */
  readonly authority: string
}

/** Reason for refusing a callback URL. */
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

/** Result of a URL check. `message` says what the tenant must change. */
export type CheckedCallbackUrl = { readonly kind: 'callback'; readonly url: CallbackUrl } | RefusedCallback

/** Refusal with a message for the tenant. */
export interface RefusedCallback {
  readonly kind: 'refused'
  readonly cause: CallbackRefusal
  readonly message: string
}

const urlLengthMax = 2048

/** Ports of protocols other than HTTP. Callbacks to them are refused: https://fetch.spec.whatwg.org/#port-blocking (read 2026-11). */
export const portsBlocked: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
  109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515,
  526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049,
  3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10_080,
])

/** Ports of HTTP servers, which are always allowed at listed, non-public addresses. */
export const callbackPortsAlways: readonly number[] = [80, 443, 8080, 8443]

/** Platform limits for callbacks. */
export interface CallbackBounds {
  /** Non-public networks that a tenant can list, from `LATCHKEY_CALLBACK_CIDRS_MAX`. */
  readonly cidrsMax: readonly string[]
  /** Allowed ports at non-public addresses besides 80, 443, 8080 and 8443, from `LATCHKEY_CALLBACK_PORTS`. */
  readonly ports: readonly number[] | 'any'
}

export interface CallbackRules extends CallbackBounds {
  /** Non-public networks that the tenant lists. */
  readonly allowedCIDRs: readonly string[]
}

/** Parses a callback URL and checks its form, but not its address. */
export function checkCallbackUrl(text: string): CheckedCallbackUrl {
  if (text.length > urlLengthMax)
    return refused('too_long', `must be at most ${urlLengthMax} characters long`)
  // Refuses characters that a URL parser removes or converts: the callback would be sent to another URL than the tenant has written.
  if (/[\\\u0000-\u0020\u007f]/.test(text)) {
    return refused('malformed', 'must not contain spaces, control characters or backslashes')
  }
  const url = URL.parse(text)
  if (url === null) return refused('malformed', 'must be a URL such as https://hooks.example/latchkey')
  const scheme = url.protocol === 'https:' ? 'https' : 'http'
  if (url.protocol !== `${scheme}:`) return refused('scheme', 'must be an https URL')
  // The URL parser also accepts https:name and https:///name as https://name.
  if (!/^https?:\/\/[^/]/i.test(text)) return refused('malformed', 'must have a host after https://')
  if (url.username !== '' || url.password !== '') {
    return refused('credentials', 'must not contain credentials: verify the signature of deliveries instead')
  }
  if (text.includes('#')) return refused('fragment', 'must not have a fragment, which is never sent')
  const port = url.port === '' ? (scheme === 'https' ? 443 : 80) : Number(url.port)
  if (portsBlocked.has(port))
    return refused('port', `must not use port ${port}, which belongs to another protocol`)
  return parsed(url, scheme, port)
}

/** Validates a callback URL without resolving its name. Each delivery applies the same rules to the resolved addresses. */
export function validateCallback(text: string, rules: CallbackRules): CheckedCallbackUrl {
  const checked = checkCallbackUrl(text)
  if (checked.kind === 'refused') return checked
  const { url } = checked
  const refusal = url.isAddress ? validateAddresses(url, [url.host], rules) : validateName(url, rules)
  return refusal ?? checked
}

/**
 * Validates all addresses of a callback. One refused address refuses the callback, because a name that resolves to both a public and an
 * internal address is a DNS-rebinding attack or a mistake. A non-public address is allowed only at HTTP ports and at the ports that the
 * platform sets, so that tenants cannot reach databases or kubelets.
 */
export function validateAddresses(
  { scheme, port }: Pick<CallbackUrl, 'scheme' | 'port'>,
  addresses: readonly string[],
  rules: CallbackRules,
): RefusedCallback | undefined {
  for (const address of addresses) {
    const verdict = checkAddress(address, rules)
    if (verdict.kind === 'refused') return refusedAddress(verdict.block)
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
    `must not use port ${port} of a private address: use ${usual}, or ask the platform team to add it to LATCHKEY_CALLBACK_PORTS`,
  )
}

/** Allows plain HTTP only if the tenant and the platform both list networks. */
function validateName({ scheme, port }: CallbackUrl, rules: CallbackRules): RefusedCallback | undefined {
  if (scheme === 'https') return undefined
  const { allowedCIDRs, cidrsMax } = rules
  if (allowedCIDRs.length === 0 || cidrsMax.length === 0) return httpNotListed
  const isPrivate = allowedCIDRs.every(isNeverPublic) || cidrsMax.every(isNeverPublic)
  return isPrivate && !isListedPort(port, rules) ? portNotListed(port) : undefined
}

function parsed(url: URL, scheme: 'http' | 'https', port: number): CheckedCallbackUrl {
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
  'must be https, unless allowedCIDRs lists every address of its host and the platform permits them',
)

/** Returns a refusal that names the block of the address, never the address: tenants could resolve internal names through Latchkey. */
function refusedAddress(block: AddressBlock): RefusedCallback {
  const advice = blocksNeverCalled.has(block)
    ? ', which is never called: use another address'
    : ': use a public address, or list its network in allowedCIDRs if the platform permits it'
  return refused('address', `leads to ${blockNames[block]}${advice}`)
}
