import type { ErrorObject } from 'ajv/dist/2020'
import { providerNamePattern } from '#internal/tenants/index.ts'
import { contract, resolveParameter, schemaAt } from '../documents/contract.ts'
import { noteDeliveryProblem } from './delivery-problems.ts'

/** A call of a callback. */
export interface Delivered {
  readonly headers: Headers
  readonly body: string
}

const operation = contract.webhooks.event.post
const event = schemaAt('components', 'schemas', 'Event')
const parameters = (operation.parameters ?? []).map((parameter, index) =>
  resolveParameter(['webhooks', 'event', 'post', 'parameters', String(index)], parameter),
)
/** Maximum characters of a body in a message. */
const shownCharsMax = 500

/**
 * Compares a delivery with the published contract: the body with the schema `Event`, without undocumented fields, and the headers with the
 * documented ones. Problems fail the test in which the delivery was received.
 */
export function checkDelivery(delivered: Delivered): void {
  const problems = problemsOf(delivered)
  if (problems.length > 0)
    noteDeliveryProblem(`${problems.join('; ')}, in ${delivered.body.slice(0, shownCharsMax)}`)
}

/** Returns how a delivery differs from the published contract. Pure. */
export function problemsOf({ headers, body }: Delivered): string[] {
  const found: string[] = []
  const type = headers.get('content-type')
  if (type !== 'application/json') found.push(`content-type is ${type}`)
  for (const { parameter, schema } of parameters) {
    const value = headers.get(parameter.name)
    if (value === null) {
      if (parameter.required) found.push(`header ${parameter.name} is missing`)
    } else if (!schema(value)) found.push(`header ${parameter.name} is ${value}`)
  }
  const value = parsed(body)
  if (value === undefined) return [...found, 'the body is not JSON']
  if (!event(value))
    found.push(...(event.errors ?? []).filter((each) => !isDeclared(each, value)).map(textOf))
  const { id } = value as { readonly id?: unknown }
  const webhookId = headers.get('webhook-id')
  if (webhookId !== null && webhookId !== id) found.push(`webhook-id is ${webhookId}, and id is ${id}`)
  return found
}

/** Returns whether the only difference is the name of a declared provider: the published set of names may grow. */
function isDeclared({ instancePath, keyword }: ErrorObject, value: object): boolean {
  if (instancePath !== '/provider' || keyword !== 'enum' || !('provider' in value)) return false
  return typeof value.provider === 'string' && new RegExp(providerNamePattern).test(value.provider)
}

function textOf({ instancePath, message = '', params }: ErrorObject): string {
  return `body${instancePath} ${message} ${JSON.stringify(params)}`
}

function parsed(body: string): object | undefined {
  try {
    const value: unknown = JSON.parse(body)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    return undefined
  }
}
