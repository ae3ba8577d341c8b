/* How far a block is decoded. */
#ifndef CODEC_BLOCK_FORM_H
#define CODEC_BLOCK_FORM_H

enum block_form {
	BLOCK_DECODED, /* completely: the bytes of the chunk                             */
	BLOCK_PACKED,  /* all but the last step, which can be done for a part of the block */
};

#endif
