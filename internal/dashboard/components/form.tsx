import { type ComponentChildren, createContext } from 'preact'
import { useContext } from 'preact/hooks'
import { neutralProviderName, providerNames } from '#internal/tenants/index.ts'
import { link } from '../page.ts'
import { Card, Notice, PageHeader } from './block.tsx'
import { instantOf, parseZone, ReaderClockContext, utcZone, wallTimeOf } from './clock.ts'
import { Icon } from './text.tsx'

/** Lists the installation's Providers in alphabetical order. Reads from memory only. */
export const OwnProvidersContext = createContext<() => readonly string[]>(() => [])

export interface Field {
  /** `time` is a time in the reader's zone, such as `2026-11-21T19:50`. */
  readonly kind: 'text' | 'lines' | 'number' | 'choice' | 'time'
  readonly name: string
  readonly label: string
  readonly value?: string | undefined
  readonly problem?: string | undefined
  readonly hint?: string
  readonly placeholder?: string
  readonly isRequired?: boolean
  readonly isShort?: boolean
  /** Height of a field of kind `lines`. Default 16. */
  readonly rows?: number
  /** Spans both columns of a form with two columns. */
  readonly isWhole?: boolean
  /** Maximum length of a text, or of the digits of a number. Default 300. */
  readonly charsMax?: number
  readonly min?: number
  readonly max?: number
  readonly choices?: readonly Choice[]
  readonly suggestions?: readonly string[]
  /** Adds the installation's Providers to the suggestions. */
  readonly suggestsProviders?: boolean
  /** Label of the empty option of a choice. Omit if the user must choose an option. */
  readonly none?: string
  /** Parses a text that has its own syntax, or a choice that accepts more than its options. Returns undefined if invalid. */
  parse?(text: string): string | undefined
  /** Error text of an invalid value. Default: the text for the field's kind. */
  readonly expected?: string
}

export interface Choice<Value extends string = string> {
  readonly value: Value
  readonly label: string
}

export function choicesOf<const Value extends string>(values: readonly Value[]): readonly Choice<Value>[] {
  return values.map((value) => ({ value, label: value.replaceAll('_', ' ') }))
}

/** Field for a built-in provider. Accepts the provider's neutral name or its vendor's name. */
export const builtInProviderField = {
  kind: 'choice',
  name: 'provider',
  label: 'Provider',
  none: 'Any',
  choices: choicesOf(providerNames),
  parse: neutralProviderName,
  expected: 'There is no such provider',
} as const

/** Earliest time that a field accepts. As the start of a range, it includes all events. */
export const earliestText = '2000-01-01T00:00:00Z'

export type Problems<Name extends string = string> = Readonly<Partial<Record<Name, string>>>

type ValueOf<Each extends Field> = Each extends { readonly kind: 'time' | 'number' }
  ? number
  : Each extends { readonly choices: readonly Choice<infer Value>[] }
    ? Value
    : Each extends { parse(text: string): infer Value }
      ? Exclude<Value, undefined>
      : string

/** Parsed values of a form. Times are in ms since the epoch. An empty field is undefined. */
export type FieldValues<Fields extends readonly Field[]> = {
  readonly [Each in Fields[number] as Each['name']]?: ValueOf<Each> | undefined
}

/**
 * Parses the fields of a form. Returns an error text for each invalid field; ignores texts that belong to no field. Times are in the zone
 * that the form names as `zone`. Times that end in Z are in UTC, and so are all times of a form without `zone`.
 */
export function readFields<const Fields extends readonly Field[]>(
  fields: Fields,
  typed: Texts,
): { readonly values: FieldValues<Fields>; readonly problems: Problems } {
  const values: Record<string, string | number> = {}
  const problems: Record<string, string> = {}
  for (const field of fields) {
    const text = typed[field.name] ?? ''
    if (text === '' && field.isRequired !== true) continue
    const value = text === '' ? undefined : valueOf(field, text, zoneOf(typed))
    if (value === undefined) problems[field.name] = field.expected ?? expectedOf(field)
    else values[field.name] = value
  }
  const { from, to } = values
  if (typeof from === 'number' && typeof to === 'number' && from >= to) problems['to'] = orderProblem
  return { values: values as FieldValues<Fields>, problems }
}

export type Texts = Readonly<Record<string, string | undefined>>

const zoneOf = ({ zone }: Texts) => (zone === undefined ? utcZone : (parseZone(zone) ?? utcZone))

const charsMaxDefault = 300

function valueOf(field: Field, text: string, zone: string): string | number | undefined {
  const { kind, charsMax = charsMaxDefault, min = 0, max = Number.MAX_SAFE_INTEGER, choices = [] } = field
  if (kind === 'time') return parseTimeField(text, zone)
  if (field.parse) return field.parse(text)
  if (kind === 'choice') return choices.find(({ value }) => value === text)?.value
  if (text.length > charsMax) return undefined
  if (kind === 'text' || kind === 'lines') return text
  const number = /^\d+$/.test(text) ? Number(text) : -1
  return number >= min && number <= max ? number : undefined
}

function expectedOf({ kind, charsMax = charsMaxDefault, isRequired = false }: Field): string {
  if (kind === 'time') return timeProblem
  if (kind === 'choice') return 'Choose one of the options'
  if (kind === 'number') return `Enter a whole number of at most ${charsMax} digits`
  return `Use ${isRequired ? '1 to' : 'at most'} ${charsMax} characters`
}

/** Returns fields with submitted values and error texts. Valid times are in UTC, as `timeFieldText` formats them. */
export function filled(fields: readonly Field[], typed: Texts, problems: Problems): readonly Field[] {
  const valueIn = ({ kind, name }: Field) => {
    const text = typed[name]
    const atMs = kind === 'time' && text !== undefined ? parseTimeField(text, zoneOf(typed)) : undefined
    return atMs === undefined ? text : timeFieldText(atMs)
  }
  return fields.map((each) => ({ ...each, value: valueIn(each), problem: problems[each.name] }))
}

/** Renders fields. With fields of kind `time` it also renders the field `zone`, so a form must contain it only once. */
export function Fields(props: {
  readonly fields: readonly Field[]
  /** Makes ids unique when a page contains several forms. */
  readonly idPrefix?: string
}) {
  const { fields, idPrefix = 'field' } = props
  const { zone } = useContext(ReaderClockContext)
  return (
    <>
      {fields.some(({ kind }) => kind === 'time') && <input type="hidden" name="zone" value={zone} />}
      {fields.map((field) => (
        <FieldOf field={field} id={`${idPrefix}-${field.name}`} />
      ))}
    </>
  )
}

function FieldOf({ field, id }: { readonly field: Field; readonly id: string }) {
  const { hint, problem, label, isWhole = false } = field
  const { zone } = useContext(ReaderClockContext)
  const isTime = field.kind === 'time'
  const isShort = field.kind === 'number' || field.isShort === true
  return (
    <div class={`field${isShort ? ' is-short' : ''}${isTime ? ' is-time' : ''}${isWhole ? ' is-whole' : ''}`}>
      <label for={id}>{isTime ? `${label} (${zone})` : label}</label>
      <Control field={field} id={id} />
      {problem !== undefined && (
        <p class="problem-text" id={`${id}-problem`}>
          {problem}
        </p>
      )}
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  )
}

function Control({ field, id }: { readonly field: Field; readonly id: string }) {
  const { kind, name, value = '', problem, hint } = field
  const { zone } = useContext(ReaderClockContext)
  const describedBy = [problem && `${id}-problem`, hint && `${id}-hint`].filter(Boolean).join(' ')
  const own = {
    id,
    name,
    ...(describedBy !== '' && { 'aria-describedby': describedBy }),
    ...(problem !== undefined && { 'aria-invalid': 'true' as const }),
  }
  if (kind === 'choice') {
    const chosen = field.parse?.(value) ?? value
    return (
      <select {...own}>
        {field.none !== undefined && <option value="">{field.none}</option>}
        {field.choices?.map((choice) => (
          <option value={choice.value} selected={choice.value === chosen}>
            {choice.label}
          </option>
        ))}
      </select>
    )
  }
  if (kind === 'lines')
    return (
      <textarea
        {...own}
        rows={field.rows ?? 16}
        class="code"
        placeholder={field.placeholder ?? ''}
        spellcheck={false}
        maxLength={field.charsMax ?? charsMaxDefault}
      >
        {value}
      </textarea>
    )
  if (kind === 'time') {
    const atMs = parseTimeField(value)
    const local = atMs === undefined ? value : wallTimeOf(atMs, zone)
    return <input {...own} type="datetime-local" step="1" value={local} autocomplete="off" />
  }
  const suggestions = suggestionsOf(field, useContext(OwnProvidersContext))
  const input = (
    <input
      {...own}
      type="text"
      {...(suggestions.length > 0 && { list: `${id}-suggestions` })}
      {...(kind === 'number' && { inputMode: 'numeric', pattern: '[0-9]*' })}
      value={value}
      placeholder={field.placeholder ?? ''}
      required={field.isRequired ?? false}
      maxLength={field.charsMax ?? charsMaxDefault}
      autocomplete="off"
      autocapitalize="none"
      spellcheck={false}
    />
  )
  if (suggestions.length === 0) return input
  return (
    <>
      {input}
      <datalist id={`${id}-suggestions`}>
        {suggestions.map((each) => (
          <option value={each} />
        ))}
      </datalist>
    </>
  )
}

/** Maximum suggested Providers, so that a page stays small. The names of others can be typed. */
const ownProvidersMax = 100

function suggestionsOf(
  { suggestions = [], suggestsProviders = false }: Field,
  listOwnProviders: () => readonly string[],
): readonly string[] {
  if (!suggestsProviders) return suggestions
  return [...new Set([...listOwnProviders().slice(0, ownProvidersMax), ...suggestions])]
}

function HiddenFields({ fields }: { readonly fields: Texts }) {
  return (
    <>
      {Object.entries(fields).map(
        ([name, value]) => value !== undefined && <input type="hidden" name={name} value={value} />,
      )}
    </>
  )
}

/** Renders a `GET` form, so that the address contains the filters and can be shared. */
export function FilterForm(props: {
  readonly path: string
  readonly fields: readonly Field[]
  /** Further fields, such as those for exact times. They are collapsed unless one has a value. */
  readonly times?: readonly Field[]
  /** Default: Exact times. */
  readonly moreLabel?: string | undefined
  /** Query parameters that the form keeps, sent as hidden fields. */
  readonly kept?: Texts
  readonly isActive: boolean
  /** Default: Filter. */
  readonly button?: string
}) {
  const {
    path,
    fields,
    times = [],
    moreLabel = 'Exact times',
    kept = {},
    isActive,
    button = 'Filter',
  } = props
  return (
    <form class="filters" method="get" action={path} role="search" aria-label="Filters">
      <HiddenFields fields={kept} />
      <Fields fields={fields} idPrefix="filter" />
      <div class="filter-buttons">
        <button type="submit" class="button is-primary">
          <Icon name="search" /> {button}
        </button>
        {isActive && (
          <LinkButton href={link(path, kept)} tone="plain">
            Clear
          </LinkButton>
        )}
      </div>
      {times.length > 0 && (
        <details class="filters-more" open={times.some(({ value }) => value !== undefined)}>
          <summary>{moreLabel}</summary>
          <div>
            <Fields fields={times} idPrefix="filter" />
          </div>
        </details>
      )}
    </form>
  )
}

interface PostFormParts {
  readonly action: string
  readonly csrfToken: string
  readonly hidden?: Texts
  /** CSS class. `inline-form` is for a single button within text. Default `form`. */
  readonly look?: string
  readonly children?: ComponentChildren
}

export function PostForm({ action, csrfToken, hidden = {}, look = 'form', children }: PostFormParts) {
  return (
    <form method="post" action={action} class={look}>
      <HiddenFields fields={{ ...hidden, csrf: csrfToken }} />
      {children}
    </form>
  )
}

interface ButtonParts {
  /** `danger` is for an action that cannot be undone. */
  readonly tone?: 'primary' | 'danger' | 'normal' | 'plain'
  readonly children: ComponentChildren
}

const buttonClass = (tone: ButtonParts['tone']) => (tone === 'normal' ? 'button' : `button is-${tone}`)

export function Submit({ tone = 'primary', children }: ButtonParts) {
  return (
    <button type="submit" class={buttonClass(tone)}>
      {children}
    </button>
  )
}

export function LinkButton({ href, tone = 'normal', children }: ButtonParts & { readonly href: string }) {
  return (
    <a class={buttonClass(tone)} href={href}>
      {children}
    </a>
  )
}

interface Sending extends Omit<PostFormParts, 'look' | 'children'> {
  /** Starts with a verb: `Replay the event`. */
  readonly button: string
  readonly tone?: 'primary' | 'danger'
  readonly back: string
}

/** Renders the buttons that end every form, with the same order, place and size on all pages. */
export function SendButtons({ button, tone, back }: Pick<Sending, 'button' | 'tone' | 'back'>) {
  return (
    <div class="buttons send-buttons">
      <Submit {...(tone && { tone })}>{button}</Submit>
      <LinkButton href={back}>Back</LinkButton>
    </div>
  )
}

function SendForm({ button, tone, back, children, ...form }: Sending & PostFormParts) {
  return (
    <PostForm {...form}>
      {children}
      <SendButtons button={button} back={back} {...(tone && { tone })} />
    </PostForm>
  )
}

/** Asks for confirmation. The text states the consequences, the tenant, and whether the action can be undone. */
export function Confirm(
  props: Sending & {
    readonly question: string
    readonly children: ComponentChildren
  },
) {
  const { question, children, ...sending } = props
  return (
    <div class="confirm card">
      <h1>{question}</h1>
      <div class="confirm-text">{children}</div>
      <SendForm {...sending} />
    </div>
  )
}

export function FormPage(
  props: Sending & {
    readonly title: ComponentChildren
    readonly lead: string
    readonly crumb: string
    readonly card: string
    readonly problem?: { readonly title: string; readonly text?: string } | undefined
    readonly fields: readonly Field[]
    readonly isPaired?: boolean
    readonly children?: ComponentChildren
  },
) {
  const { title, lead, crumb, card, problem, children, ...form } = props
  const { fields, isPaired = false, ...sending } = form
  return (
    <>
      <PageHeader title={title} crumbs={[{ label: crumb, path: sending.back }]} lead={lead} />
      {problem !== undefined && (
        <Notice tone="bad" title={problem.title}>
          {problem.text}
        </Notice>
      )}
      <Card title={card}>
        {children}
        <SendForm {...sending}>
          {isPaired ? (
            <div class="form-pair">
              <Fields fields={fields} />
            </div>
          ) : (
            <Fields fields={fields} />
          )}
        </SendForm>
      </Card>
    </>
  )
}

const timeForm = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?)?(?:\.\d{1,3})?(Z?)$/
const yearMin = 2000
const yearMax = 2100

const timeProblem = 'Enter a time such as 2026-11-21T19:50'

const orderProblem = 'The end must be later than the start'

/** Parses a date, or a time with or without seconds, into ms since the epoch. The time is in `zone` unless it ends in Z. */
export function parseTimeField(text: string, zone: string = utcZone): number | undefined {
  const [, day, minute = '00:00', second = ':00', isUtc] = timeForm.exec(text) ?? []
  if (day === undefined) return undefined
  const wall = `${day}T${minute}${second}`
  const asUtcMs = Date.parse(`${wall}Z`)
  if (Number.isNaN(asUtcMs)) return undefined
  const date = new Date(asUtcMs)
  // Refuses an invalid date such as 30 February, which `Date` converts to a day in March.
  const isReal = wallTimeOf(asUtcMs, utcZone) === wall
  if (!isReal || date.getUTCFullYear() < yearMin || date.getUTCFullYear() >= yearMax) return undefined
  return isUtc === 'Z' ? asUtcMs : instantOf(wall, zone)
}

/** Formats a time in UTC with seconds: `2026-11-21T19:50:07Z`. */
export function timeFieldText(atMs: number): string {
  return `${wallTimeOf(atMs, utcZone)}Z`
}
