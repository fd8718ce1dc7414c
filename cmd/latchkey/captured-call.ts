import { Type as t } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { parseTimestamp } from '#internal/base/index.ts'
import {
  type CallTrace,
  defaultSignatureAgeMsMax,
  type ProviderCall,
  traceSteps,
} from '#internal/providers/index.ts'
import { exitCodes, type Problem } from './cli.ts'
import { printable } from './tables.ts'

/** Headers by name, and the body as text or in base64. */
const CapturedCallSchema = t.Object(
  {
    method: t.Optional(t.String()),
    url: t.Optional(t.String()),
    headers: t.Record(t.String(), t.String()),
    body: t.Optional(t.String()),
    bodyBase64: t.Optional(t.String()),
    at: t.Optional(t.String()),
  },
  { additionalProperties: false },
)

/** @param nowMs time of the call if its file contains none */
export function parseCapturedCall(path: string, text: string, nowMs: number): ProviderCall | Problem {
  const wrong = (problem: string): Problem => ({ problem: `${path} ${problem}`, exitCode: exitCodes.misused })
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return wrong('is not JSON')
  }
  if (!Value.Check(CapturedCallSchema, value)) {
    const [first] = Value.Errors(CapturedCallSchema, value)
    return wrong(
      `must be {"headers":{"<name>":"<value>"},"body":"…"} with optional method, url, bodyBase64 and at: ${first?.path ?? ''} ${first?.message ?? ''}`,
    )
  }
  const { method = 'POST', url = '', headers, body, bodyBase64, at } = value
  const atMs = at === undefined ? nowMs : parseTimestamp(at)
  if (atMs === undefined) return wrong('must have a time such as 2026-01-31T09:00:00Z in at')
  if (body !== undefined && bodyBase64 !== undefined) return wrong('must not have both body and bodyBase64')
  if (bodyBase64 !== undefined && !base64Form.test(bodyBase64)) return wrong('must have base64 in bodyBase64')
  const parsed = headersOf(headers)
  if (typeof parsed === 'string')
    return wrong(`has an invalid name or value of a header: ${printable(parsed)}`)
  return {
    request: { method, url },
    headers: parsed,
    body: bodyBase64 === undefined ? Buffer.from(body ?? '') : Buffer.from(bodyBase64, 'base64'),
    settings: {},
    nowMs: atMs,
    signatureAgeMsMax: defaultSignatureAgeMsMax,
  }
}

const base64Form = /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** Returns the headers, or the name of the first one that HTTP does not permit. */
function headersOf(named: Readonly<Record<string, string>>): Headers | string {
  const headers = new Headers()
  for (const [name, value] of Object.entries(named))
    try {
      headers.append(name, value)
    } catch {
      return name
    }
  return headers
}

/** Formats the steps of a check, one per line. */
export function traceText(trace: CallTrace): string {
  const steps = traceSteps(trace).flatMap(({ title, texts }) =>
    texts.map((text) => [title, printable(text)] as const),
  )
  const lines = [...steps, ['result', outcomeText(trace.outcome)] as const]
  const width = Math.max(...lines.map(([name]) => name.length)) + 2
  return lines.map(([name, text]) => `${name.padEnd(width)}${text}`).join('\n')
}

function outcomeText(outcome: CallTrace['outcome']): string {
  switch (outcome.kind) {
    case 'refused':
      return `refused: ${outcome.cause}`
    case 'answered':
      return `handshake, answered with ${outcome.answer.status} ${printable(outcome.answer.body)}`
    case 'keys_needed':
      return `not verified: give the keys that the vendor publishes at ${outcome.url} in --keys-file`
    case 'confirms':
      return `the signature is valid; the subscription is confirmed at ${printable(outcome.url)}`
    case 'verified_only':
      return `the signature is valid, but the call is refused: ${outcome.cause}`
    case 'event':
      return `event ${printable(outcome.event.sourceEventId)} of type ${outcome.event.type} (${printable(outcome.event.rawType)})`
  }
}
