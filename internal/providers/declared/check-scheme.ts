import type { Problem } from '#internal/tenants/index.ts'
import { exactlyOne, headerProblems, problem, templateProblems } from './check-place.ts'
import { textsOf } from './jwt.ts'
import { hasPublicKeys, hasPublishedKeys, hmacHashOf, isSecretJwt } from './keys.ts'
import type { Declaration, Scheme } from './schema.ts'
import { callVariables, claimVariables, parseTemplate, type TemplatePart } from './template.ts'

export function schemeProblems(declaration: Declaration, scheme: Scheme, path: string): Problem[] {
  return [
    ...algorithmProblems(scheme, path),
    ...valueProblems(declaration, scheme, path),
    ...keyProblems(scheme, `${path}.key`),
    ...timeProblems(declaration, scheme, path),
    ...contentProblems(declaration, scheme, path),
    ...publishedProblems(declaration, scheme, path),
  ]
}

/** Checks a scheme with published keys. These sign for all customers of the vendor, so the call must be bound to the tenant. */
function publishedProblems({ handshakes = [], body }: Declaration, scheme: Scheme, path: string): Problem[] {
  if (!hasPublishedKeys(scheme)) return []
  const isBound = (scheme.requires ?? []).some(
    (each) =>
      each.claim !== undefined &&
      textsOf(each).every((text) => partsOf(text).some(({ kind }) => kind === 'secret')),
  )
  const isJwt = scheme.algorithm === 'jwt'
  return [
    ...(isJwt && !isBound
      ? [
          problem(
            `${path}.requires`,
            'must have a claim that equals a text with {secret}: the keys at jwksUrl sign for all customers of the vendor',
          ),
        ]
      : []),
    ...(!isJwt && (scheme.signature.json !== 'Signature' || scheme.key || scheme.requires)
      ? [problem(path, 'must have only signature: { json: Signature } and toleranceSeconds for aws-sns')]
      : []),
    ...(!isJwt && (body.json === undefined || body.form)
      ? [problem('body', 'must be json for aws-sns')]
      : []),
    ...(scheme.signature.json !== undefined && body.bytesMax > locatedBytesMax
      ? [
          problem(
            'body.bytesMax',
            `must be at most ${locatedBytesMax}: the body is read before keys are fetched`,
          ),
        ]
      : []),
    ...(handshakes.some(({ isSigned }) => isSigned)
      ? [problem('handshakes', 'must not be signed: the keys are fetched after handshakes are answered')]
      : []),
  ]
}

/** Maximum bytes of a body that contains its signature by a fetched key, since it is parsed on the event loop before the fetch. */
const locatedBytesMax = 1_048_576

/** Fields that depend on the algorithm. */
type Field = 'encoding' | 'signs' | 'timestamp' | 'toleranceSeconds' | 'ecdsaForm' | 'jwtAlgorithms'

function algorithmProblems(scheme: Scheme, path: string): Problem[] {
  const { algorithm, signature } = scheme
  const isEcdsa = algorithm.startsWith('ecdsa-')
  const isSns = algorithm === 'aws-sns'
  const needs: readonly Field[] =
    algorithm === 'jwt' ? ['jwtAlgorithms'] : isComparison(scheme) || isSns ? [] : ['encoding', 'signs']
  const allows: readonly Field[] =
    algorithm === 'jwt' || isSns
      ? ['toleranceSeconds']
      : isComparison(scheme)
        ? []
        : ['timestamp', 'toleranceSeconds', ...(isEcdsa ? (['ecdsaForm'] as const) : [])]
  const all: readonly Field[] = [
    'encoding',
    'signs',
    'timestamp',
    'toleranceSeconds',
    'ecdsaForm',
    'jwtAlgorithms',
  ]
  const isPlain = algorithm === 'jwt' || isSns || isComparison(scheme)
  const mixed =
    algorithm === 'jwt' && !isSecretJwt(scheme) && scheme.jwtAlgorithms?.some((name) => name.startsWith('HS'))
  return [
    ...needs
      .filter((name) => scheme[name] === undefined)
      .map((name) => problem(`${path}.${name}`, `is required by ${algorithm}`)),
    ...all
      .filter((name) => scheme[name] !== undefined && !needs.includes(name) && !allows.includes(name))
      .map((name) => problem(`${path}.${name}`, `does not belong to ${algorithm}: remove it`)),
    ...(isPlain && (signature.pairs || signature.list || signature.moreHeaders)
      ? [problem(`${path}.signature`, `must have only a place and a prefix for ${algorithm}`)]
      : []),
    ...(algorithm === 'basic' && (signature.header === undefined || signature.prefix !== undefined)
      ? [problem(`${path}.signature`, 'must be a header without prefix for basic: `Basic ` is implied')]
      : []),
    ...(mixed
      ? [
          problem(
            `${path}.jwtAlgorithms`,
            'must not mix HS256, HS384 or HS512 with algorithms of public keys: the public key would be the secret',
          ),
        ]
      : []),
  ]
}

/** Returns whether a scheme compares a secret without a signature. */
function isComparison({ algorithm }: Scheme): boolean {
  return algorithm === 'token' || algorithm === 'basic'
}

function valueProblems(declaration: Declaration, scheme: Scheme, path: string): Problem[] {
  const { signature, timestamp, when, requires = [] } = scheme
  const { pairs, list, prefix, moreHeaders = [] } = signature
  const forms = [prefix, pairs, list].filter((each) => each !== undefined).length
  const at = `${path}.signature`
  return [
    ...exactlyOne(at, signature, ['header', 'query', 'json']),
    ...headerProblems(declaration, `${at}.header`, signature.header),
    ...moreHeaders.flatMap((key, index) => headerProblems(declaration, `${at}.moreHeaders[${index}]`, key)),
    ...(moreHeaders.length > 0 && signature.header === undefined
      ? [problem(`${at}.moreHeaders`, 'needs header')]
      : []),
    ...(forms > 1 ? [problem(at, 'must have at most one of prefix, pairs, list')] : []),
    ...(pairs?.separator.includes(pairs.assign)
      ? [problem(`${at}.pairs`, 'must have a separator without the assigning character')]
      : []),
    ...(pairs && timestamp?.pair === pairs.name
      ? [problem(`${path}.timestamp.pair`, 'must differ from signature.pairs.name')]
      : []),
    ...(list && !timestamp?.listFirst ? [problem(`${at}.list`, 'needs timestamp.listFirst')] : []),
    ...(when
      ? [
          ...exactlyOne(`${path}.when`, when, ['header', 'query']),
          ...headerProblems(declaration, `${path}.when.header`, when.header),
        ]
      : []),
    ...requires.flatMap((each, index) => [
      ...exactlyOne(`${path}.requires[${index}]`, each, ['header', 'query', 'json', 'claim']),
      ...exactlyOne(`${path}.requires[${index}]`, each, ['equals', 'anyOf']),
      ...headerProblems(declaration, `${path}.requires[${index}].header`, each.header),
      ...(each.claim !== undefined && scheme.algorithm !== 'jwt'
        ? [problem(`${path}.requires[${index}].claim`, 'belongs to jwt: use header, query or json')]
        : []),
    ]),
  ]
}

function keyProblems(scheme: Scheme, path: string): Problem[] {
  const { key = {}, algorithm } = scheme
  const { format, jwksUrl, decode, orText, bytesMin, prefix } = key
  if (algorithm === 'aws-sns') return []
  if (!hasPublicKeys(scheme)) {
    return [
      ...(format === undefined
        ? []
        : [problem(`${path}.format`, `does not belong to ${algorithm}, whose key is a secret`)]),
      ...(jwksUrl === undefined
        ? []
        : [problem(`${path}.jwksUrl`, `does not belong to ${algorithm}, whose key is a secret`)]),
      ...(orText && (prefix === undefined || decode === undefined)
        ? [problem(`${path}.orText`, 'needs prefix and decode')]
        : []),
    ]
  }
  const isBinary = format === 'raw' || format === 'der'
  return [
    ...((format === undefined) === (jwksUrl === undefined)
      ? [problem(path, `must have exactly one of format and jwksUrl: ${algorithm} needs a public key`)]
      : []),
    ...(jwksUrl !== undefined && algorithm !== 'jwt'
      ? [problem(`${path}.jwksUrl`, 'belongs to jwt: use format')]
      : []),
    ...(isBinary && decode === undefined
      ? [problem(`${path}.decode`, `is required by format ${format}: hex, base64 or base64url`)]
      : []),
    ...(!isBinary && decode !== undefined
      ? [problem(`${path}.decode`, 'belongs to the formats raw and der: remove it')]
      : []),
    ...(orText === undefined && bytesMin === undefined
      ? []
      : [problem(path, 'must not have bytesMin or orText, which belong to secrets')]),
  ]
}

function timeProblems(declaration: Declaration, scheme: Scheme, path: string): Problem[] {
  const { timestamp, toleranceSeconds, algorithm } = scheme
  if (timestamp === undefined) {
    return toleranceSeconds !== undefined && algorithm !== 'jwt' && algorithm !== 'aws-sns'
      ? [
          problem(
            `${path}.toleranceSeconds`,
            'needs timestamp: without a signed time there is nothing to compare',
          ),
        ]
      : []
  }
  const { pair, listFirst, json, header } = timestamp
  const at = `${path}.timestamp`
  const covered = partsOf(scheme.signs).some(
    (part) =>
      part.kind === 'timestamp' ||
      (part.kind === 'header' && part.argument === header) ||
      // Accepts a signed list of headers, because a call is refused if its list lacks the header with the time.
      (part.kind === 'headers' && header !== undefined) ||
      (json !== undefined &&
        (part.kind === 'body' || part.kind === 'sha256' || (part.kind === 'json' && part.argument === json))),
  )
  return [
    ...exactlyOne(at, timestamp, ['header', 'pair', 'listFirst', 'json']),
    ...headerProblems(declaration, `${at}.header`, header),
    ...(pair !== undefined && !scheme.signature.pairs
      ? [problem(`${at}.pair`, 'needs signature.pairs')]
      : []),
    ...(listFirst && !scheme.signature.list ? [problem(`${at}.listFirst`, 'needs signature.list')] : []),
    ...(covered
      ? []
      : [problem(at, 'is not signed: signs must contain {timestamp}, or the body that has it')]),
  ]
}

function contentProblems(declaration: Declaration, scheme: Scheme, path: string): Problem[] {
  const id = declaration.event.id[0]?.header !== undefined
  const templates = [
    ...(scheme.signs === undefined
      ? []
      : [[`${path}.signs`, scheme.signs, scheme.timestamp !== undefined, callVariables] as const]),
    ...(scheme.requires ?? []).flatMap((each, index) =>
      textsOf(each).map(
        (text) =>
          [
            `${path}.requires[${index}].${each.equals === undefined ? 'anyOf' : 'equals'}`,
            text,
            false,
            each.claim !== undefined && hasPublishedKeys(scheme) ? claimVariables : callVariables,
          ] as const,
      ),
    ),
  ]
  return templates.flatMap(([at, template, timestamp, variables]) =>
    templateProblems(declaration, at, template, { timestamp, id, variables }),
  )
}

function partsOf(template = ''): readonly TemplatePart[] {
  const parsed = parseTemplate(template, claimVariables)
  return parsed.kind === 'parts' ? parsed.parts : []
}

/** Returns whether the signature of a scheme covers the whole body, directly or by a signed hash. */
export function coversBody(scheme: Scheme): boolean {
  const parts = partsOf(scheme.signs)
  if (parts.some(({ kind }) => kind === 'body' || kind === 'sha256' || kind === 'form')) return true
  return (scheme.requires ?? []).some(({ claim, query, header, ...texts }) => {
    const isHash = textsOf(texts).every((text) =>
      partsOf(text).some(({ kind }) => kind === 'sha256' || kind === 'body'),
    )
    const isSigned =
      claim !== undefined ||
      parts.some(
        (part) =>
          (query !== undefined &&
            (part.kind === 'url' || (part.kind === 'query' && part.argument === query))) ||
          (header !== undefined && part.kind === 'header' && part.argument === header),
      )
    return isHash && isSigned
  })
}

/**
 * Returns whether the text that an HMAC scheme signs can never have the form `[A-Za-z0-9_-]+`. The HMAC of a challenge of this form is then
 * useless to a forger. A JSON body contains a bracket, and a form with the event in a field contains `=`.
 */
export function excludesChallenges(declaration: Declaration, scheme: Scheme): boolean {
  if (hmacHashOf(scheme.algorithm) === undefined) return true
  const { form } = declaration.body
  return partsOf(scheme.signs).some((part) => {
    if (part.kind === 'text') return /[^A-Za-z0-9_-]/.test(part.text)
    if (part.kind === 'body') return form === undefined || form.jsonField !== undefined
    return (
      part.kind === 'url' ||
      part.kind === 'path' ||
      (part.kind === 'timestamp' && scheme.timestamp?.unit === 'iso')
    )
  })
}
