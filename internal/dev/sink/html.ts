/** Only `html` makes one: no received text, whatever its shape, has this symbol. */
const markup = Symbol('markup')

/** Markup that is safe to send: whatever was put into it has been escaped. */
export interface Html {
  readonly [markup]: string
}

/** What a template takes. Text and numbers are escaped, `undefined` and `false` are nothing. */
export type HtmlValue = string | number | undefined | false | Html | readonly HtmlValue[]

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Makes markup of a template; values may stand in text and in quoted attributes, nowhere else. */
export function html(parts: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  return { [markup]: parts.map((part, index) => part + render(values[index])).join('') }
}

/** The text of markup, to be sent. */
export function textOf(made: Html): string {
  return made[markup]
}

function render(value: HtmlValue): string {
  if (value === undefined || value === false) return ''
  if (typeof value === 'string') return value.replace(/[&<>"']/g, (found) => entities[found] ?? '')
  if (typeof value === 'number') return String(value)
  return markup in value ? value[markup] : value.map(render).join('')
}
