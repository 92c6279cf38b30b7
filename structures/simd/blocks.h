/* Number of entries of a block. The loops over scores and weights note one sum or one largest entry for each block, so
 * that a draw finds first a block, then an entry in it.
 */
#ifndef EXPFAM_BLOCKS_H
#define EXPFAM_BLOCKS_H

#define EXPFAM_BLOCK 64
#endif
