import { parseTimestamp } from '#internal/base/index.ts'
import type { Problem } from '#internal/tenants/index.ts'
import { refusalCauses } from '../provider.ts'
import { handshakeProblems } from './check-handshake.ts'
import { exactlyOne, headerProblems, problem, templateProblems } from './check-place.ts'
import { coversBody, schemeProblems } from './check-scheme.ts'
import { hasPublishedKeys } from './keys.ts'
import type { Declaration, Vector } from './schema.ts'
import { placeText } from './scheme.ts'
import { hashVariables } from './template.ts'

/** Maximum number of cases of a raw type. Cases are tried one after another. */
const casesPerTypeMax = 64

/** Checks the rules between fields of a declaration that satisfies the schema. */
export function declarationProblems(declaration: Declaration): Problem[] {
  const { body, aliases = [], account, name } = declaration
  return [
    ...(body.json || body.form ? [] : [problem('body', 'must contain json, form or both')]),
    ...repeated([name, ...aliases]).map((each) => problem('aliases', `has the name ${each} twice`)),
    ...declaredHeaderProblems(declaration),
    ...declaration.signature.schemes.flatMap((scheme, index) =>
      schemeProblems(declaration, scheme, `signature.schemes[${index}]`),
    ),
    ...choiceProblems(declaration),
    ...(account
      ? [
          ...exactlyOne('account', account, ['header', 'json']),
          ...headerProblems(declaration, 'account.header', account.header),
        ]
      : []),
    ...eventProblems(declaration),
    ...typeProblems(declaration),
    ...(declaration.handshakes ?? []).flatMap((each, index) =>
      handshakeProblems(declaration, each, `handshakes[${index}]`),
    ),
    ...(declaration.vectors ?? []).flatMap((each, index) => vectorProblems(each, `vectors[${index}]`)),
    ...repeated((declaration.vectors ?? []).map((each) => each.name)).map((each) =>
      problem('vectors', `has the name ${each} twice`),
    ),
  ]
}

function repeated(names: readonly string[]): string[] {
  return [...new Set(names.filter((name, index) => names.indexOf(name) !== index))]
}

function declaredHeaderProblems(declaration: Declaration): Problem[] {
  const headers = declaration.headers ?? {}
  const names = Object.values(headers).flatMap((each) => each.names.map((name) => name.toLowerCase()))
  const used = JSON.stringify({ ...declaration, headers: undefined, vectors: undefined, types: undefined })
  return [
    ...repeated(names).map((name) => problem('headers', `has the name ${name} twice`)),
    ...Object.keys(headers)
      .filter(
        (key) =>
          !used.includes(`"${key}"`) &&
          !used.includes(`{header:${key}}`) &&
          !used.includes(`{headers:${key}}`),
      )
      .map((key) => problem(`headers.${key}`, 'is not used: remove it, or name it where a value is read')),
  ]
}

/** Checks the choice between schemes: the place of the signature and `when` select the scheme of a call. */
function choiceProblems({ signature: { schemes, bodyUnsigned } }: Declaration): Problem[] {
  const shadowed = schemes.flatMap((scheme, index) => {
    const place = placeText(scheme.signature)
    const before = schemes.slice(0, index).some((each) => placeText(each.signature) === place && !each.when)
    const message = 'is never chosen: a scheme before it reads the same signature and has no `when`'
    return before ? [problem(`signature.schemes[${index}]`, message)] : []
  })
  const covering = schemes.filter((scheme) => coversBody(scheme))
  const published = schemes.findIndex(hasPublishedKeys)
  if (published >= 0 && !schemes.every(hasPublishedKeys)) {
    const message = `must not be beside a scheme whose secrets are keys: those of signature.schemes[${published}] are no secret, and would sign`
    return [...shadowed, problem('signature.schemes', message)]
  }
  if (covering.length < schemes.length && !bodyUnsigned) {
    const index = schemes.findIndex((scheme) => !coversBody(scheme))
    const message = `must be true, because signature.schemes[${index}] does not cover the body with {body}, {sha256:body} or {form:sorted}`
    return [...shadowed, problem('signature.bodyUnsigned', message)]
  }
  const isNeedless = bodyUnsigned === true && covering.length === schemes.length
  return isNeedless
    ? [...shadowed, problem('signature.bodyUnsigned', 'must be removed: every scheme covers the body')]
    : shadowed
}

function eventProblems(declaration: Declaration): Problem[] {
  const { id, type, occurredAt = [] } = declaration.event
  const header = (path: string, key: string | undefined) => headerProblems(declaration, path, key)
  return [
    ...id.flatMap((each, index) => {
      const path = `event.id[${index}]`
      const isLate = each.header !== undefined && index > 0
      return [
        ...exactlyOne(path, each, ['header', 'json', 'hash']),
        ...(each.header ?? []).flatMap((key, at) => header(`${path}.header[${at}]`, key)),
        ...(isLate
          ? [problem(path, 'must be first, because it is a header: list all headers with the id in it')]
          : []),
        ...(each.integer !== undefined && each.json === undefined
          ? [problem(`${path}.integer`, 'needs json')]
          : []),
        ...(each.hash === undefined
          ? []
          : templateProblems(declaration, `${path}.hash`, each.hash, {
              timestamp: false,
              id: false,
              variables: hashVariables,
            })),
      ]
    }),
    ...type.from.flatMap((each, index) => [
      ...exactlyOne(`event.type.from[${index}]`, each, ['header', 'json', 'text']),
      ...header(`event.type.from[${index}].header`, each.header),
    ]),
    ...(type.action
      ? [
          ...exactlyOne('event.type.action', type.action, ['header', 'json']),
          ...header('event.type.action.header', type.action.header),
        ]
      : []),
    ...occurredAt.flatMap((each, index) => [
      ...exactlyOne(`event.occurredAt[${index}]`, each, ['header', 'json']),
      ...header(`event.occurredAt[${index}].header`, each.header),
    ]),
  ]
}

function typeProblems({ types = [] }: Declaration): Problem[] {
  const counts = new Map<string, number>()
  const closed = new Set<string>()
  return types.flatMap(({ raw, when = [] }, index) => {
    const path = `types[${index}]`
    const count = (counts.get(raw) ?? 0) + 1
    counts.set(raw, count)
    const isUnreachable = closed.has(raw)
    if (when.length === 0) closed.add(raw)
    return [
      ...when.flatMap((each, at) => exactlyOne(`${path}.when[${at}]`, each, ['values', 'isPresent'])),
      ...(isUnreachable
        ? [problem(path, 'is never reached: a case of this raw type before it has no conditions')]
        : []),
      ...(count === casesPerTypeMax + 1
        ? [problem(path, `is over the maximum of ${casesPerTypeMax} cases of a raw type`)]
        : []),
    ]
  })
}

function vectorProblems({ at, body, bodyBase64, expect }: Vector, path: string): Problem[] {
  const isCause = expect.refused === undefined || refusalCauses.some((each) => each === expect.refused)
  return [
    ...(parseTimestamp(at) === undefined
      ? [problem(`${path}.at`, 'must be a time such as 2026-11-26T09:00:00Z')]
      : []),
    ...(body !== undefined && bodyBase64 !== undefined
      ? [problem(path, 'must have body or bodyBase64, not both')]
      : []),
    ...exactlyOne(`${path}.expect`, expect, ['type', 'refused', 'answer', 'confirms']),
    ...(isCause ? [] : [problem(`${path}.expect.refused`, `must be one of ${refusalCauses.join(', ')}`)]),
  ]
}
