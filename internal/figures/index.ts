export { type FigureName, figureNames, type QueueSight } from './figure.ts'
export { figureTables, forgetFigures } from './forget-figures.ts'
export { type RankRequest, rankTenants, type TenantFigures } from './rank-tenants.ts'
export {
  type FigurePoint,
  type FigureSums,
  type Figures,
  type FiguresRequest,
  type FigureTenants,
  figureStepMs,
  type LatencyFigures,
  readFigures,
} from './read-figures.ts'
export { FigureRecorder, type FigureRecorderOptions } from './recorder.ts'
export { FigureTally, type TallyBounds } from './tally.ts'
