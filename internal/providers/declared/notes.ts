import { didYouMean } from '#internal/config/index.ts'
import type { Problem } from '#internal/tenants/index.ts'
import { eventTypeTexts } from '../catalogue.ts'
import { problem } from './check-place.ts'
import { textsOf } from './jwt.ts'
import type { Declaration, Scheme } from './schema.ts'
import { schemeOfCall } from './tamper.ts'
import { type TemplatePart, templateParts } from './template.ts'
import { callOf } from './vectors.ts'

const vocabulary = [...eventTypeTexts.keys()]
/** Maximum edit distance between an unknown type and a suggested one. */
const distanceMax = 3

/** Returns notes on what is valid, but likely a mistake or important to the platform team. Paths refer to the manifest. Pure. */
export function declarationNotes(declaration: Declaration): Problem[] {
  return [
    ...newlineNotes(declaration),
    ...urlNotes(declaration),
    ...idNotes(declaration),
    ...typeNotes(declaration),
  ].map(({ path, message }) => problem(`spec.${path}`, message))
}

/** Finds `\n` written without double quotes, which YAML reads as a backslash and the letter n. */
function newlineNotes({ signature: { schemes }, event }: Declaration): Problem[] {
  const templates = [
    ...schemes.flatMap(({ signs = '', requires = [] }, index) => [
      [`signature.schemes[${index}].signs`, signs] as const,
      ...requires.flatMap((each, at) =>
        textsOf(each).map((text) => [`signature.schemes[${index}].requires[${at}]`, text] as const),
      ),
    ]),
    ...event.id.map(({ hash = '' }, index) => [`event.id[${index}].hash`, hash] as const),
  ]
  return templates
    .filter(([, text]) => text.includes('\\n'))
    .map(([path]) => problem(path, 'has a backslash and n, not a newline: write the text in double quotes'))
}

/** Finds vectors without the URL that their signature covers. */
function urlNotes(declaration: Declaration): Problem[] {
  return (declaration.vectors ?? []).flatMap((vector, index) => {
    if (vector.url !== undefined || vector.expect.refused !== undefined) return []
    const scheme = schemeOfCall(declaration, callOf(vector))
    const variable = scheme && signedUrlVariable(scheme)
    return variable === undefined
      ? []
      : [problem(`vectors[${index}]`, `has no url, but signs has ${variable}, which is empty without it`)]
  })
}

/** Returns the variable of the URL that a scheme signs or demands, if any. */
export function signedUrlVariable({ signs, requires = [] }: Scheme): '{url}' | '{path}' | undefined {
  const parts = partsOf([signs, ...requires.flatMap((each) => textsOf(each))])
  if (parts.some(({ kind }) => kind === 'url')) return '{url}'
  return parts.some(({ kind }) => kind === 'path') ? '{path}' : undefined
}

/** Finds an event id in a header that a scheme does not sign, without an id in the body that must equal it. */
function idNotes({ signature: { schemes }, event }: Declaration): Problem[] {
  const [first, ...others] = event.id
  const keys = first?.header ?? []
  if (keys.length === 0 || others.some(({ json }) => json !== undefined)) return []
  // Leaves out `token` and `basic`: who observes a call has the secret, so a signed id would not help.
  const open = schemes.find(
    (scheme) =>
      !['token', 'basic'].includes(scheme.algorithm) &&
      !partsOf([scheme.signs]).some(
        ({ kind, argument }) =>
          kind === 'id' || kind === 'headers' || (kind === 'header' && keys.includes(argument)),
      ),
  )
  if (open === undefined) return []
  const age = open.toleranceSeconds ?? 'LATCHKEY_SIGNATURE_MAX_AGE_SECONDS'
  const span = open.timestamp === undefined ? 'at any time' : `for ${age} s after it was signed`
  return [
    problem(
      'event.id[0]',
      `is a header that is not signed: a captured call can be repeated under other ids ${span}`,
    ),
  ]
}

/** Finds types that no catalogue has. The vendor's own types begin with its name. */
function typeNotes({ name, types = [] }: Declaration): Problem[] {
  return types.flatMap(({ type }, index) => {
    if (eventTypeTexts.has(type) || type.startsWith(`${name}.`)) return []
    const meant = didYouMean(type, vocabulary, distanceMax)
    const hint = meant === undefined ? 'see the reference of event types' : `did you mean ${meant}?`
    return [
      problem(`types[${index}].type`, `is ${type}, which is not in the catalogue of event types: ${hint}`),
    ]
  })
}

function partsOf(templates: readonly (string | undefined)[]): { kind: string; argument: string }[] {
  return templates.flatMap((text) =>
    templateParts(text ?? '').map((part: TemplatePart) => ({
      kind: part.kind,
      argument: part.kind === 'text' ? '' : part.argument,
    })),
  )
}
