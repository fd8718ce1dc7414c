import { isCredentialHeader } from '#internal/redaction/index.ts'

/** Raised by each forward of an event, so that a callback cannot send events round through us for ever. */
export const hopsHeader = 'latchkey-hops'

/** Names the simulation that an event comes from. Whoever calls from outside cannot set it: our own names are dropped. */
export const simulationHeader = 'latchkey-simulation'

/** Forwards an event may have behind it. */
export const hopsMax = 5

/** Of the connection and not of the message: RFC 9110 section 7.6.1. */
const connectionOnly = new Set([
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'proxy-connection',
])

/**
 * The headers of a call that are kept and forwarded, as JSON text of an object of strings: without credentials, signatures and
 * our own names, with the count of hops raised. Their size is bounded by the server's bound of a request's head.
 * @param simulationId where the call is our own
 */
export function keptHeaders(headers: Headers, rules: HeaderRules, simulationId?: string): string {
  const kept: Record<string, string> = Object.create(null)
  headers.forEach((value, name) => {
    if (rules.keeps(name)) kept[name] = value
  })
  kept[hopsHeader] = String(hopsOf(headers) + 1)
  if (simulationId !== undefined) kept[simulationHeader] = simulationId
  return JSON.stringify(kept)
}

/** How often an event was forwarded already; a header that is no number counts as the bound. */
export function hopsOf(headers: Headers): number {
  const text = headers.get(hopsHeader)
  if (text === null) return 0
  return /^\d{1,3}$/.test(text) ? Number(text) : hopsMax
}

const namesRememberedMax = 1_000

/** Tells which headers are kept, by name; made once, since the same few names come with each call. */
export class HeaderRules {
  readonly #secretHeaders: ReadonlySet<string>
  readonly #verdicts = new Map<string, boolean>()

  /** @param secretHeaders lowercase names of headers that carry some provider's signature or credential */
  constructor(secretHeaders: ReadonlySet<string>) {
    this.#secretHeaders = secretHeaders
  }

  /** Whether a header of this lowercase name is kept. */
  keeps(name: string): boolean {
    const known = this.#verdicts.get(name)
    if (known !== undefined) return known
    const verdict = this.#judge(name)
    if (this.#verdicts.size < namesRememberedMax) this.#verdicts.set(name, verdict)
    return verdict
  }

  #judge(name: string): boolean {
    return (
      !this.#secretHeaders.has(name) &&
      !connectionOnly.has(name) &&
      !name.startsWith('latchkey-') &&
      !isCredentialHeader(name)
    )
  }
}
