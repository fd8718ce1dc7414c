import { type JsonObject } from '#internal/base/index.ts'
import { type ProviderCall, type Refused, refused } from '../provider.ts'
import {
  type CallView,
  compilePlace,
  type HeaderTable,
  memberReader,
  readHeader,
  templateTextCharsMax,
  textOf,
  urlCharsMax,
} from './call.ts'
import { sortedForm } from './form.ts'
import { equalBytes, sha256 } from './signature.ts'
import { type TemplatePart, templateParts } from './template.ts'

/** Pieces to concatenate. */
export type Content = readonly (string | Uint8Array)[]

/** Compiled template of a signed text. It is read and joined in two steps, since the time may be known only after the first step. */
export interface CompiledContent {
  /** Reads the values of the template's variables, or refuses the call. */
  gather(view: CallView): readonly string[] | Refused
  /** Refuses a content that is too long. */
  join(view: CallView, values: readonly string[], time: string): Content | Refused
}

type ReadValue = (view: CallView) => string | Refused

interface ContentNames {
  /** Names of headers with the event id. If the template needs a missing one, the call is refused as `event_id_missing`. */
  readonly idNames?: readonly string[]
  /** Headers that a call must not have unless `{headers:<key>}` lists them. */
  readonly listedNames?: readonly string[]
}

const noValues: readonly string[] = []

/** Compiles a template, which must contain the body at most once. */
export function compileContent(
  template: string,
  headers: HeaderTable,
  names: ContentNames = {},
): CompiledContent {
  const parts = templateParts(template)
  const readers = parts.flatMap((part) => {
    const read = reader(part, headers, names)
    return read ? [read] : []
  })
  const { before, after, hasBody } = splitAtBody(parts)
  return {
    gather: (view) => (readers.length === 0 ? noValues : gatherValues(readers, view)),
    join({ call: { body } }, values, time) {
      const head = joinPieces(before, values, time)
      const tail = after.length === 0 ? '' : joinPieces(after, values, time)
      if (head.length + tail.length > body.length + templateTextCharsMax)
        return refused('signature_malformed')
      if (!hasBody) return [head]
      if (tail !== '') return [head, body, tail]
      return head === '' ? [body] : [head, body]
    },
  }
}

const timePiece = Symbol('time')
/** A text, the index of a value, or the time. */
type Piece = string | number | typeof timePiece

/** Returns the pieces of the text before and after the body. */
function splitAtBody(parts: readonly TemplatePart[]) {
  const before: Piece[] = []
  const after: Piece[] = []
  let hasBody = false
  let values = 0
  for (const part of parts) {
    const pieces = hasBody ? after : before
    if (part.kind === 'body') hasBody = true
    else if (part.kind === 'text') pieces.push(part.text)
    else if (part.kind === 'timestamp') pieces.push(timePiece)
    else pieces.push(values++)
  }
  return { before, after, hasBody }
}

function joinPieces(pieces: readonly Piece[], values: readonly string[], time: string): string {
  let text = ''
  for (const piece of pieces)
    text += typeof piece === 'string' ? piece : piece === timePiece ? time : (values[piece] ?? '')
  return text
}

function gatherValues(readers: readonly ReadValue[], view: CallView): readonly string[] | Refused {
  const values: string[] = []
  for (const read of readers) {
    const value = read(view)
    if (typeof value !== 'string') return value
    view.meter?.(value.length)
    values.push(value)
  }
  return values
}

/** Returns undefined for text, body and time, which need no reader. */
function reader(
  part: TemplatePart,
  headers: HeaderTable,
  { idNames = [], listedNames = [] }: ContentNames,
): ReadValue | undefined {
  switch (part.kind) {
    case 'id':
      return headerReader(idNames, true)
    case 'header': {
      const names = headers[part.argument]?.names ?? []
      return headerReader(
        names,
        names.some((name) => idNames.includes(name)),
      )
    }
    case 'headers':
      return listedHeadersReader(headers[part.argument]?.names ?? [], listedNames)
    case 'secret':
      return ({ identity }) =>
        (part.argument === '' ? identity?.text : identity?.members.get(part.argument)) ??
        refused('signature_mismatch')
    case 'receivedAt':
      return ({ call }) => String(call.nowMs)
    case 'url':
      return requestReader(({ url }) => url)
    case 'path':
      return requestReader(({ url }) => url.replace(/^[a-z]+:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, ''))
    case 'method':
      return requestReader(({ method }) => method)
    case 'query': {
      const read = compilePlace({ query: part.argument }, headers)
      return (view) => {
        const reading = read(view)
        return reading.kind === 'value' ? reading.value : ''
      }
    }
    case 'json':
      return jsonReader(memberReader(part.argument))
    case 'form':
      return (view) => {
        const fields = view.form()
        return fields === undefined ? refused('body_not_json') : sortedForm(fields)
      }
    case 'sha256':
      return (view) => {
        view.meter?.(view.call.body.length)
        return sha256(view.call.body).toString('hex')
      }
    default:
      return undefined
  }
}

function headerReader(names: readonly string[], isId: boolean): ReadValue {
  const missing = refused(isId ? 'event_id_missing' : 'signature_malformed')
  const named = { names }
  return ({ call }) => {
    const reading = readHeader(call.headers, named)
    if (reading.kind === 'conflict') return refused('headers_conflict')
    return reading.kind === 'value' ? reading.value : missing
  }
}

const listedHeadersMax = 32

/** Reads the headers whose names a header lists, as `<name>:<value>` with lowercase names, in ascending order, joined by `;`. */
function listedHeadersReader(names: readonly string[], mustList: readonly string[]): ReadValue {
  const list = headerReader(names, false)
  return (view) => {
    const text = list(view)
    if (typeof text !== 'string') return text
    const { headers } = view.call
    const listed = new Set(text.split(',', listedHeadersMax + 1).map((name) => name.trim().toLowerCase()))
    const isComplete = mustList.every((name) => headers.get(name) === null || listed.has(name.toLowerCase()))
    if (!isComplete || listed.size > listedHeadersMax) return refused('signature_malformed')
    const lines = [...listed].toSorted().map((name) => {
      const value = /^[a-z0-9-]{1,100}$/.test(name) ? headers.get(name) : null
      return value === null ? undefined : `${name}:${value.trim()}`
    })
    return lines.includes(undefined) ? refused('signature_malformed') : lines.join(';')
  }
}

/** `valueOf` must run in linear time. */
function requestReader(valueOf: (request: NonNullable<ProviderCall['request']>) => string): ReadValue {
  return ({ call: { request }, meter }) => {
    if (request === undefined || request.url.length > urlCharsMax) return refused('signature_malformed')
    meter?.(request.url.length)
    return valueOf(request)
  }
}

function jsonReader(read: (body: JsonObject) => unknown): ReadValue {
  return (view) => {
    const body = view.body()
    if (body.kind === 'refused') return body
    return textOf(read(body.value)) ?? refused('signature_malformed')
  }
}

export function isRefused(result: Content | readonly string[] | Refused): result is Refused {
  return !Array.isArray(result)
}

export function equalsContent(text: string, content: CompiledContent, view: CallView): boolean {
  const values = content.gather(view)
  if (isRefused(values)) return false
  const joined = content.join(view, values, '')
  return !isRefused(joined) && equalBytes(Buffer.from(text), bytesOf(joined))
}

export function bytesOf(content: Content): Uint8Array {
  const [first] = content
  if (content.length === 1 && typeof first !== 'string' && first !== undefined) return first
  return Buffer.concat(content.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)))
}
