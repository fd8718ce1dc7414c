import type { Problem } from '#internal/tenants/index.ts'
import { exactlyOne, headerProblems, problem } from './check-place.ts'
import { excludesChallenges } from './check-scheme.ts'
import { hmacHashOf } from './keys.ts'
import type { Declaration, Handshake } from './schema.ts'
import { parseTemplate, replyVariables } from './template.ts'

/** Checks a handshake. If it returns the HMAC of a challenge to unverified callers, this HMAC must never be the signature of an event. */
export function handshakeProblems(declaration: Declaration, handshake: Handshake, path: string): Problem[] {
  const { method, when = [], challenge, hmac, reply, isSigned } = handshake
  const { schemes } = declaration.signature
  const hasBody = method === 'POST'
  const oracle =
    hmac && !isSigned ? schemes.findIndex((scheme) => !excludesChallenges(declaration, scheme)) : -1
  return [
    ...(challenge ? exactlyOne(`${path}.challenge`, challenge, ['header', 'query', 'json']) : []),
    ...headerProblems(declaration, `${path}.challenge.header`, challenge?.header),
    ...when.flatMap((each, index) => exactlyOne(`${path}.when[${index}]`, each, ['values', 'isPresent'])),
    ...(!hasBody && (when.length > 0 || challenge?.json !== undefined)
      ? [problem(path, `must not read the body, which a ${method} call has not: use header or query`)]
      : []),
    ...(hasBody && when.length === 0 && challenge === undefined
      ? [problem(path, 'must have when or challenge, or every call would be a handshake')]
      : []),
    ...(hmac && challenge === undefined ? [problem(`${path}.hmac`, 'needs challenge')] : []),
    ...(hmac && schemes.every(({ algorithm }) => hmacHashOf(algorithm) === undefined)
      ? [problem(`${path}.hmac`, 'needs a scheme with an hmac algorithm')]
      : []),
    ...(oracle >= 0
      ? [
          problem(
            `${path}.hmac`,
            `would be a signing oracle: signature.schemes[${oracle}] may sign a text of letters, digits, _ and - only. Set isSigned, or sign a text with another character`,
          ),
        ]
      : []),
    ...replyProblems(handshake, `${path}.reply`),
    ...(method === 'HEAD' && (reply.text !== undefined || reply.json !== undefined)
      ? [problem(`${path}.reply`, 'must be empty for HEAD')]
      : []),
  ]
}

/**
 * Headers that an answer may have. A challenge, which any caller can choose, must not become a header that acts on browsers, such as
 * `Set-Cookie`, `Location`, `Content-Type` or `Access-Control-Allow-Origin`.
 */
const replyHeader = /^(x|webhook)-/i
/** Headers that an answer must not set: they act on browsers or proxies (such as internal redirects of nginx), or every answer has them. */
const actingHeader =
  /^x-(accel-.*|sendfile|lighttpd-send-file|reproxy-.*|litespeed-.*|content-type-options|frame-options|request-id)$/i

function replyProblems(
  { reply: { status, text, json, headers = {} }, challenge, hmac }: Handshake,
  path: string,
): Problem[] {
  const templates = [
    ...(text === undefined ? [] : [[`${path}.text`, text] as const]),
    ...Object.entries(headers).map(([name, value]) => [`${path}.headers.${name}`, value] as const),
    ...Object.entries(json ?? {}).flatMap(([name, value]) =>
      typeof value === 'string' ? [[`${path}.json.${name}`, value] as const] : [],
    ),
  ]
  const isUsed = templates.some(([, template]) => template.includes('{hmac}'))
  return [
    ...(status === 204 && (text !== undefined || json !== undefined)
      ? [problem(path, 'must have no text or json with status 204')]
      : []),
    ...(text !== undefined && json !== undefined ? [problem(path, 'must have text or json, not both')] : []),
    ...Object.keys(headers)
      .filter((name) => !replyHeader.test(name) || actingHeader.test(name))
      .map((name) =>
        problem(
          `${path}.headers.${name}`,
          'is no header of an answer: its name must begin with X- or WebHook- and have no meaning for browsers and proxies, because callers choose the challenge',
        ),
      ),
    ...templates.flatMap(([at, template]) => {
      const parsed = parseTemplate(template, replyVariables)
      if (parsed.kind === 'invalid') return [problem(at, parsed.message)]
      const has = (kind: string) => parsed.parts.some((part) => part.kind === kind)
      return [
        ...(has('challenge') && !challenge
          ? [problem(at, 'has {challenge}, but the handshake has no challenge')]
          : []),
        ...(has('hmac') && !hmac ? [problem(at, 'has {hmac}, but the handshake has no hmac')] : []),
      ]
    }),
    ...(hmac && !isUsed ? [problem(path, 'does not use {hmac}: remove hmac, or answer with it')] : []),
  ]
}
