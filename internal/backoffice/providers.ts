import { parseTimestamp } from '#internal/base/index.ts'
import {
  type CallTrace,
  declaredNames,
  defaultSignatureAgeMsMax,
  findDeclaration,
  traceCall,
} from '#internal/providers/index.ts'
import { invalid, ok } from './outcome.ts'
import type { UseCase } from './parts.ts'

const headersMax = 100

const list: UseCase<undefined, readonly string[]> = ({ directory }) =>
  Promise.resolve(ok(declaredNames(directory.declarations())))

/** Verifies a captured call with the given secret, as intake would, and reports each step. Uses no secret of a tenant. */
const trace: UseCase<
  {
    /** Name or alias of a declared provider. */
    readonly provider: string
    /** URL that the vendor called, for signatures that cover the URL. */
    readonly url: string
    /** Lines of the form `Name: value`. */
    readonly headers: string
    readonly body: string
    readonly secret: string
    /** Time of the call, RFC 3339. Default: now. */
    readonly at?: string | undefined
  },
  CallTrace
> = ({ directory, clock }, _actor, captured) => {
  const { provider, url, body, secret, at } = captured
  const declaration = findDeclaration(provider, directory.declarations())
  if (declaration === undefined)
    return Promise.resolve(invalid('must be the name of a declared provider', 'provider'))
  const nowMs = at === undefined ? clock.now() : parseTimestamp(at)
  if (nowMs === undefined)
    return Promise.resolve(invalid('must be a time such as 2026-11-21T19:50:00Z', 'at'))
  const headers = parseHeaders(captured.headers)
  if (typeof headers === 'string') return Promise.resolve(invalid(headers, 'headers'))
  const call = {
    request: { method: 'POST', url },
    headers,
    body: Buffer.from(body),
    settings: {},
    nowMs,
    signatureAgeMsMax: defaultSignatureAgeMsMax,
  }
  return Promise.resolve(ok(traceCall(declaration, call, [secret])))
}

function parseHeaders(text: string): Headers | string {
  const headers = new Headers()
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '')
  if (lines.length > headersMax) return `must have at most ${headersMax} lines`
  for (const [at, line] of lines.entries()) {
    const colon = line.indexOf(':')
    try {
      if (colon < 1) throw new TypeError('no name')
      headers.append(line.slice(0, colon).trim(), line.slice(colon + 1).trim())
    } catch {
      return `must have lines of the form Name: value; line ${at + 1} has another form`
    }
  }
  return headers
}

export const providerCases = { list, trace }
