import type { Problem } from '#internal/tenants/index.ts'
import type { Declaration } from './schema.ts'
import { callVariables, parseTemplate, type TemplatePart, type TemplateVariable } from './template.ts'

export function problem(path: string, message: string): Problem {
  return { path, message }
}

export function exactlyOne(path: string, object: object, names: readonly string[]): Problem[] {
  const set = names.filter((name) => Reflect.get(object, name) !== undefined)
  if (set.length === 1) return []
  const found = set.length === 0 ? 'has none' : `has ${set.join(' and ')}`
  return [problem(path, `must have exactly one of ${names.join(', ')}: it ${found}`)]
}

export function headerProblems(
  { headers = {} }: Declaration,
  path: string,
  key: string | undefined,
): Problem[] {
  if (key === undefined || Object.hasOwn(headers, key)) return []
  const known = Object.keys(headers).join(', ')
  return [
    problem(
      path,
      `names a header that is not in headers: ${known === '' ? 'add it there' : `known are ${known}`}`,
    ),
  ]
}

export function templateProblems(
  declaration: Declaration,
  path: string,
  template: string,
  rules: {
    /** Whether the scheme has a signed time, so that `{timestamp}` is allowed. */
    readonly timestamp: boolean
    /** Whether the event id is in a header, so that `{id}` is allowed. */
    readonly id: boolean
    /** Variables that the template may contain. Default: those of a call. */
    readonly variables?: readonly TemplateVariable[]
  },
): Problem[] {
  const parsed = parseTemplate(template, rules.variables ?? callVariables)
  if (parsed.kind === 'invalid') return [problem(path, parsed.message)]
  const count = (kind: TemplatePart['kind']) => parsed.parts.filter((part) => part.kind === kind).length
  const { body } = declaration
  const need = (isMet: boolean, message: string) => (isMet ? [] : [problem(path, message)])
  return [
    ...parsed.parts.flatMap((part) =>
      part.kind === 'header' || part.kind === 'headers'
        ? headerProblems(declaration, path, part.argument)
        : [],
    ),
    ...need(parsed.parts.length > 0, 'must not be empty'),
    ...need(
      rules.timestamp || count('timestamp') === 0,
      'has {timestamp}, but there is no timestamp here: add it to the scheme',
    ),
    ...need(
      rules.id || count('id') === 0,
      'has {id}, but event.id[0] is not a header: use {json:<path>}, or name the header',
    ),
    ...need(body.form !== undefined || count('form') === 0, 'has {form:sorted}, but body has no form'),
    ...need(count('body') + count('form') <= 1, 'must have at most one of {body} and {form:sorted}, once'),
    ...need(count('sha256') <= 1, 'must have {sha256:body} at most once'),
  ]
}
