/** `argument` is the text after the colon. */
export type TemplatePart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: TemplateVariable; readonly argument: string }

const plainVariables = [
  'body',
  'timestamp',
  'id',
  'url',
  'path',
  'method',
  'receivedAt',
  'challenge',
  'hmac',
] as const
const argumentVariables = ['header', 'headers', 'query', 'form', 'json', 'sha256'] as const
const optionalVariables = ['secret'] as const
export type TemplateVariable =
  | (typeof plainVariables)[number]
  | (typeof argumentVariables)[number]
  | (typeof optionalVariables)[number]

export const callVariables: readonly TemplateVariable[] = [
  'body',
  'timestamp',
  'id',
  'url',
  'path',
  'method',
  'header',
  'headers',
  'query',
  'form',
  'json',
  'sha256',
]
export const claimVariables: readonly TemplateVariable[] = [...callVariables, 'secret']
export const hashVariables: readonly TemplateVariable[] = [...callVariables, 'receivedAt']
export const replyVariables: readonly TemplateVariable[] = ['challenge', 'hmac']

const variablesMax = 16

/** The message of an invalid template says what is wrong and what is allowed. */
export function parseTemplate(
  text: string,
  allowed: readonly TemplateVariable[],
):
  | { readonly kind: 'parts'; readonly parts: readonly TemplatePart[] }
  | { readonly kind: 'invalid'; readonly message: string } {
  const parts: TemplatePart[] = []
  let plain = ''
  let at = 0
  while (at < text.length) {
    const open = text.indexOf('{', at)
    if (open < 0) break
    plain += text.slice(at, open)
    if (text[open + 1] === '{') {
      plain += '{'
      at = open + 2
      continue
    }
    const close = text.indexOf('}', open)
    if (close < 0) return { kind: 'invalid', message: 'has a { without its }; write {{ for a brace' }
    const variable = parseVariable(text.slice(open + 1, close), allowed)
    if (typeof variable === 'string') return { kind: 'invalid', message: variable }
    if (plain !== '') parts.push({ kind: 'text', text: plain })
    plain = ''
    parts.push(variable)
    at = close + 1
  }
  plain += text.slice(at)
  if (plain !== '') parts.push({ kind: 'text', text: plain })
  return parts.filter(({ kind }) => kind !== 'text').length > variablesMax
    ? { kind: 'invalid', message: `has more than ${variablesMax} variables` }
    : { kind: 'parts', parts }
}

export function templateParts(text: string): readonly TemplatePart[] {
  const parsed = parseTemplate(text, [...claimVariables, 'receivedAt', ...replyVariables])
  if (parsed.kind === 'invalid')
    throw new Error(`declaration was not validated: a template ${parsed.message}`)
  return parsed.parts
}

/** Returns the parsed variable, or an error text. */
function parseVariable(inner: string, allowed: readonly TemplateVariable[]): TemplatePart | string {
  const colon = inner.indexOf(':')
  const name = colon < 0 ? inner : inner.slice(0, colon)
  const argument = colon < 0 ? '' : inner.slice(colon + 1)
  const kind = allowed.find((each) => each === name)
  if (kind === undefined)
    return `has an unknown variable {${name.slice(0, 40)}}: allowed are ${allowed.map(form).join(', ')}`
  const takesArgument = argumentVariables.some((each) => each === kind)
  const isOptional = optionalVariables.some((each) => each === kind)
  if (!isOptional && takesArgument !== argument.length > 0) return `must write {${name}} as ${form(kind)}`
  if (kind === 'form' && argument !== 'sorted') return 'must write {form:…} as {form:sorted}'
  if (kind === 'sha256' && argument !== 'body') return 'must write {sha256:…} as {sha256:body}'
  return { kind, argument }
}

function form(name: TemplateVariable): string {
  if (name === 'header') return '{header:<key>}'
  if (name === 'headers') return '{headers:<key>}'
  if (name === 'secret') return '{secret} or {secret:<member>}'
  if (name === 'query') return '{query:<name>}'
  if (name === 'json') return '{json:<path>}'
  if (name === 'form') return '{form:sorted}'
  return name === 'sha256' ? '{sha256:body}' : `{${name}}`
}
