export { internalContract, internalContractRoutes } from './internal.ts'
export { contractRoutes, publicContract } from './public.ts'
