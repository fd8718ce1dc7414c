export { contractRoutes, internalContractRoutes } from './http.ts'
export { internalContract } from './internal.v1.ts'
export { publicContract } from './public.v1.ts'
