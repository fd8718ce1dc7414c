import type { PublicRoute } from '#internal/http/index.ts'
import { internalContract } from './internal.v1.ts'
import { publicContract } from './public.v1.ts'

/** The route that serves the public contract to anybody. */
export function contractRoutes(): readonly PublicRoute[] {
  return [documentRoute('/v1/openapi.json', publicContract())]
}

/** The route that serves the internal contract to anybody who reaches the port. */
export function internalContractRoutes(): readonly PublicRoute[] {
  return [documentRoute('/internal/v1/openapi.json', internalContract())]
}

function documentRoute(path: string, document: object): PublicRoute {
  const body = JSON.stringify(document)
  return {
    ...{ method: 'GET', path, access: 'public', bodyBytesMax: 0 },
    handle: () => ({ kind: 'answer', status: 200, body, outcome: 'contract' }),
  }
}
